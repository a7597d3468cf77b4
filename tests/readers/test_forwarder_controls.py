"""The forwarder's controls refuse a ranking wherever something other than the primitive may have decided."""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("controls", ROOT / "targets/forwarder/controls.py")
controls = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(controls)


def trials(*delays, rate=1_000_000, why=(), exchange=(50, 51)):
    common = {"achieved_pps": rate, "why": list(why), "valid": not why, "exchange_ns": list(exchange)}
    return [common | {"delay_mean_ns": delay} for delay in delays]


def refused(given, none, delayed):
    return list(controls.refusals({"given": given, "none": none, "delayed": delayed}))


def test_less_work_that_is_faster_and_a_delay_that_is_slower_pass():
    assert refused(trials(400, 410, 420), trials(350, 360, 900), trials(380, 390, 370)) == []
    assert refused(trials(360), trials(360), trials(360)) == []


def test_less_work_that_took_longer_is_refused():
    [why] = refused(trials(359), trials(360), trials(380))
    assert why == "less work took longer: 360 ns without a table, 359 ns with it"


def test_a_delay_that_speeds_up_is_refused():
    [why] = refused(trials(400), trials(360), trials(359))
    assert why == "20 ns more made packets faster: 359 ns instead of 360 ns"
    [why] = refused(trials(400), trials(360), trials(380, rate=1_001_001))
    assert why == "20 ns more raised the rate from 1000000 to 1001001 packets a second"
    assert refused(trials(400), trials(360), trials(380, rate=1_000_999)) == []


def test_trials_that_are_not_valid_are_refused_with_their_reasons():
    [why] = refused(trials(400) + trials(401, why=["cut", "stalled"]), trials(360), trials(380))
    assert why == "given: 1 of 2 trials are not valid: cut; stalled"


def test_cores_that_were_moved_between_trials_are_refused():
    [why] = refused(trials(400), trials(360), trials(380, exchange=(50, 76)))
    assert why == "the cores were moved: an exchange between them took 50 ns, then 76 ns"
    assert refused(trials(400), trials(360), trials(380, exchange=(50, 75))) == []
