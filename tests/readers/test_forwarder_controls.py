"""The forwarder's controls refuse a ranking wherever something other than the primitive may have decided, and its rates
are of valid trials alone.
"""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("controls", ROOT / "targets/forwarder/controls.py")
controls = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(controls)
SPEC = importlib.util.spec_from_file_location("rates", ROOT / "targets/forwarder/rates.py")
rates = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(rates)


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


def sent(*counts, why=()):
    common = {"delay_mean_ns": 500, "lost": {"there": 0, "back": 0}, "why": list(why), "valid": not why}
    return [common | {"achieved_pps": count} for count in counts]


def test_a_rate_is_the_median_of_valid_trials_and_beside_its_target():
    words, rate, is_right = rates.told("rings", [*sent(100, 98, 99), *sent(1, why=["stalled"])], 99, None)
    assert (rate, is_right) == (99, True)
    assert "at least 99: met, 3 of 4 valid; not valid: stalled" in words
    words, _, is_right = rates.told("rings", sent(98), 99, None)
    assert not is_right
    assert "at least 99: MISSED" in words


def test_a_row_without_a_valid_trial_is_refused_with_its_reasons():
    words, rate, is_right = rates.told("rings", sent(100, why=["stalled for 2 %"]) + sent(9, why=["moved"]), None, None)
    assert (rate, is_right) == (None, False)
    assert words.endswith("refused: moved; stalled for 2 %")


def test_what_is_stamped_sends_nine_tenths_of_what_was_sent_before_without():
    name = "the same, stamped, 2 M/s"
    assert rates.told(name, sent(90), None, 100)[2]
    assert not rates.told(name, sent(89), None, 100)[2]
    assert rates.told(name, sent(89), None, None)[2]  # nothing to compare with, which the row before says


def test_that_a_trial_is_short_of_its_rate_is_the_figure_and_no_reason_against_it():
    line = '{"why": ["sent 7 of 9 packets a second", "thread 0 was stalled"], "valid": false, "achieved_pps": 7}'
    found = rates.line_of(rates.start(["echo", line]))
    assert found["why"] == ["thread 0 was stalled"]
    found = rates.line_of(rates.start(["echo", '{"why": ["sent 7 of 9 packets a second"], "achieved_pps": 7}']))
    assert found["valid"]
    found = rates.line_of(rates.start(["sh", "-c", "echo no huge pages >&2; exit 1"]))
    assert (found["valid"], found["why"]) == (False, ["no huge pages"])
