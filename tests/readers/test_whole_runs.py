"""Whole runs: listed, packed so that tar reads them, unpacked as they were, removed only when somebody says so."""

import csv
import ctypes
import fcntl
import json
import re
import shutil
import struct
import subprocess
import tarfile

import pytest


@pytest.fixture
def command(tickscope):
    def run(*words, code=0, **how):
        ended = subprocess.run([tickscope, *words], capture_output=True, text=True, **how)
        assert ended.returncode == code, ended.stderr
        return ended

    return run


def files_of(folder):
    kept = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    left_out = {"durations", "figures", "report.html", "run.lock"}
    return {str(path): (folder / path).read_bytes() for path in kept
            if path.parts[0] not in left_out and not any(part.startswith(".") for part in path.parts)}


def test_a_run_is_packed_as_tar_reads_it_and_unpacked_as_it_was(command, swinging_run, tmp_path):
    said = json.loads(command("pack", swinging_run, "--out", tmp_path / "a.tar", "--json").stdout)
    files = files_of(swinging_run)
    with tarfile.open(tmp_path / "a.tar") as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive}
    assert found == files and said["files"] == len(files)
    command("unpack", tmp_path / "a.tar", "--out", tmp_path / "b")
    assert files_of(tmp_path / "b") == files
    shown = [json.loads(command("show", run, "--json").stdout)["stages"] for run in (swinging_run, tmp_path / "b")]
    assert shown[0] == shown[1]
    command("unpack", tmp_path / "a.tar", "--out", tmp_path / "b", code=2)
    command("pack", swinging_run, "--out", tmp_path / "a.tar", code=2)
    assert "./- is one of that name" in command("pack", swinging_run, "--out", "-", code=2, cwd=tmp_path).stderr
    assert not (tmp_path / "-").exists()


def test_a_run_that_is_not_what_it_was_is_neither_packed_nor_unpacked(command, swinging_run, tmp_path):
    copy = shutil.copytree(swinging_run, tmp_path / "copy")
    command("pack", copy, "--out", tmp_path / "a.tar")
    whole = (tmp_path / "a.tar").read_bytes()
    at = whole.index(b"PAR1") + 40
    # Without an entry ahead of it that is refused.
    long = tarfile.open(tmp_path / "escape.tar", "w", format=tarfile.USTAR_FORMAT)
    long.add(tmp_path / "a.tar", arcname="../out")
    long.close()
    flipped, escape = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], (tmp_path / "escape.tar").read_bytes()
    for damaged in (flipped, whole[: len(whole) // 2], whole[:-1024], b"x" * 512, escape):
        (tmp_path / "damaged.tar").write_bytes(damaged)
        said = command("unpack", tmp_path / "damaged.tar", "--out", tmp_path / "b", code=1).stderr
        assert "damaged.tar" in said and "ack the run again" in said and "file system" not in said
        assert "digest" not in said or ": expected " in said and ", found " in said
        assert damaged is not escape or "found '../out'" in said
        assert not (tmp_path / "b").exists() and not (tmp_path / "out").exists() and not (tmp_path / ".b.part").exists()
    table = next((copy / "channels").glob("*.parquet"))
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    said = command("pack", copy, "--out", tmp_path / "c.tar", code=1).stderr
    assert all(word in said for word in ("not what it was", table.name, ": expected ", ", found ", "restore it"))
    assert not (tmp_path / "c.tar").exists()


def test_runs_are_listed_with_their_state_and_removed_only_when_somebody_says_so(command, swinging_run, tmp_path):
    folder = tmp_path / "runs"
    one = shutil.copytree(swinging_run, folder / "one")
    cut = shutil.copytree(swinging_run, folder / "cut")
    manifest = json.loads((cut / "run.json").read_text())
    manifest["ended_unix_ms"] = None
    (cut / "run.json").write_text(json.dumps(manifest))
    (cut / "digests.json").unlink()
    (folder / "torn").mkdir()
    (folder / "torn/run.json").write_text("{")
    shutil.copytree(swinging_run, folder / ".hidden.part")
    listed = command("runs", folder, "--json", code=1)
    assert f"{folder}/torn cannot be read: " in listed.stderr
    runs = by_name(listed)
    table = json.loads(command("show", one, "--json").stdout)
    assert set(runs) == {"one", "cut", "torn"} and runs["torn"]["fault"]
    assert (runs["one"]["state"], runs["cut"]["state"]) == ("ended", "cut-off")
    assert set(runs["one"]["nodes"]) == {"client", "server"} and runs["one"]["lasted_ms"] > 0
    assert by_name(command("runs", one, "--json")) == {"one": runs["one"]}, "a run that is named is a list of one"
    assert command("runs", one).stdout.startswith(f"{one}: ")
    assert runs["one"]["findings"] == len(table["findings"]) and runs["cut"]["findings"] is None
    assert runs["one"]["stamps"] > 0 and runs["one"]["bytes"] > 0
    times = runs["one"]["time_of_day"]
    assert times == table["time_of_day"] and times["readings"] > 0 and "not known" in times["rests_on"]
    (lo, hi), (last_lo, last_hi) = times["first_stamp_unix_ns"], times["last_stamp_unix_ns"]
    began, ended = (manifest_ms * 1_000_000 for manifest_ms in (manifest["started_unix_ms"], table_end(one)))
    ordered = (began - 10**9, lo, hi, last_lo, last_hi, ended + 10**9)
    assert list(ordered) == sorted(set(ordered)), "they lie in the run, as an ordinary clock has it"
    assert "--yes" in command("rm", one, code=2).stderr
    command("rm", one, folder, "--yes", code=2)
    assert "each once" in command("rm", one, one, "--yes", code=2).stderr
    (folder.parent / "link").symlink_to(one)
    for link in ("link", "link/"):  # as a shell completes it
        assert "the directory of a run itself" in command("rm", f"{folder.parent}/{link}", "--yes", code=2).stderr
    assert one.is_dir(), "all or none"
    lock = (cut / "run.lock").open("a+")
    fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 1, 0))  # as whoever writes a run (F_OFD_SETLK)
    assert "goes on" in command("rm", cut, "--yes", code=2).stderr
    lock.close()
    command("rm", one, cut, "--yes")
    assert sorted(path.name for path in folder.iterdir()) == [".hidden.part", "torn"]


def by_name(listed):
    return {run["run"].rsplit("/", 1)[1]: run for run in json.loads(listed.stdout)["runs"]}


def test_a_damaged_run_is_listed_as_damaged_with_the_file_and_ends_with_1(command, swinging_run, tmp_path):
    folder = tmp_path / "runs"
    for name in ("whole", "gone", "changed", "torn", "lacking"):
        shutil.copytree(swinging_run, folder / name)
    damaged = {name: next((folder / name / "channels").glob("*.parquet")) for name in ("gone", "changed", "torn")}
    damaged["gone"].unlink()
    damaged["changed"].write_bytes(damaged["changed"].read_bytes()[:-1] + b"x")
    damaged["torn"].write_bytes(damaged["torn"].read_bytes()[:40])
    damaged["lacking"] = next((folder / "lacking/stamps").glob("*/*/*.parquet"))
    damaged["lacking"].unlink()
    listed = command("runs", folder, "--json", code=1)
    runs = by_name(listed)
    assert (runs["whole"]["state"], runs["whole"]["faults"]) == ("ended", []) and runs["whole"]["stamps"] > 0
    for name, file in damaged.items():
        run = runs[name]
        assert (run["state"], run["stamps"], run["findings"], run["time_of_day"]) == ("damaged", None, None, None), name
        assert str(file) in {fault["file"] for fault in run["faults"]} and str(file) in listed.stderr, name
    assert "is damaged: " in listed.stderr and "3 more of these runs cannot be trusted" in listed.stderr
    lines = command("runs", folder, code=1).stdout.splitlines()
    assert sum(", damaged, " in line and ", stamps unknown, " in line for line in lines) == 4


def without_rights_of_root():
    libc = ctypes.CDLL(None)
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP; for whoever is not root there is nothing to drop


def test_what_may_not_be_listed_has_no_size_of_0_and_is_not_left_out(command, swinging_run, tmp_path):
    folder = tmp_path / "runs"
    for name in ("whole", "partly", "closed"):
        shutil.copytree(swinging_run, folder / name)
    shut = [folder / "partly/brackets", folder / "closed"]
    for place in shut:
        place.chmod(0)
    try:
        listed = command("runs", folder, "--json", code=1, preexec_fn=without_rights_of_root)
        runs, lines = by_name(listed), command("runs", folder, code=1, preexec_fn=without_rights_of_root).stdout
        folder.chmod(0)
        said = command("runs", folder, code=1, preexec_fn=without_rights_of_root).stderr
    finally:
        for place in [folder, *shut]:
            place.chmod(0o755)
    assert runs["whole"]["bytes"] > 0 and runs["whole"]["fault"] is None
    for name in ("partly", "closed"):
        assert runs[name]["bytes"] is None and "ermission denied" in runs[name]["fault"], name
    assert lines.count("size unknown, cannot be read: ") == 2
    assert "cannot list" in said and "rights" in said


def test_a_list_reads_no_traces_of_large_runs(command, swinging_run, tmp_path):
    folder = tmp_path / "runs"
    for name in ("large", "small"):
        shutil.copytree(swinging_run, folder / name)
    with (folder / "large/of-mine").open("wb") as own:
        own.truncate(1 << 30)
    runs = by_name(command("runs", folder, "--json"))
    assert runs["large"]["bytes"] > 1 << 30 and runs["large"]["findings"] is None
    assert runs["large"]["findings_left_out"] == "tickscope show counts them" and runs["large"]["stamps"] > 0
    assert runs["small"]["findings"] is not None and runs["small"]["findings_left_out"] is None


def table_end(run):
    return json.loads((run / "run.json").read_text())["ended_unix_ms"]


RENAMED = ("--rename", "client=client-2", "--rename", "server=server-2")


def durations(command, run, code=0):
    """By kind, id and stage between two points: what became of it, its duration, and the ends of that."""
    rows = csv.DictReader(command("export", run, "--csv", "-", code=code).stdout.splitlines())
    columns = ("outcome", "estimate_ticks", "lo_ticks", "hi_ticks")
    return {(row["kind"], row["id"], row["stage"]): [row[column] for column in columns]
            for row in rows if not row["stage"].startswith("end-to-end")}


def of_second(found):
    """The same under the names that RENAMED gives."""
    named = lambda stage: stage.replace("client.", "client-2.").replace("server.", "server-2.")
    return {(kind, number, named(stage)): what for (kind, number, stage), what in found.items()}


def test_two_runs_on_one_counter_become_one_with_every_duration_of_each(command, begin_run_in, tmp_path):
    runs, inject = [], "inject = {{ offset = {}, drift_ppb = 12500, wander_ppb = 900, wander_period = 4000000000 }}"
    for name, offset in (("one", 1_000_000_000), ("two", 3_000_000_000)):
        (tmp_path / name).mkdir()
        process, run = begin_run_in(tmp_path / name, 1, 400, same_boot="detect", inject=inject.format(offset))
        assert process.wait() == 0, process.stderr.read()
        runs.append(run)
    both = tmp_path / "both"
    said = json.loads(command("merge", *runs, "--out", both, *RENAMED, "--json").stdout)
    identities = {json.loads((run / "run.json").read_text())["run"] for run in (*runs, both)}
    assert len(identities) == 3 and said["related"] and not said["notes"]
    assert said["nodes"] == ["server", "client", "server-2", "client-2"]
    first, second, merged = durations(command, runs[0]), durations(command, runs[1]), durations(command, both)
    wanted = first | of_second(second)
    assert len(first) > 1000 < len(second)
    assert {key: merged[key] for key in wanted} == wanted
    assert {tuple(what) for key, what in merged.items() if key not in wanted} <= {("missing", "", "", "")}
    table = json.loads(command("show", both, "--json").stdout)
    statements = " ".join(assumption["statement"] for assumption in table["assumptions"])
    assert "ids name the same things in both" in statements and "was reset between them: nobody watched" in statements
    checked = [json.loads(command("check", run, "--json").stdout) for run in (both, *runs)]
    assert table["lost"] == 0 and checked[0]["stamps"] == checked[1]["stamps"] + checked[2]["stamps"] > 1000
    crossing = tmp_path / "crossing.toml"
    crossing.write_text('[layout]\npath = ["client.send", "server-2.received"]\n')
    stages = json.loads(command("show", both, "--layout", crossing, "--json").stdout)["stages"]
    assert stages[0]["count"] > 0, "both clients read one counter, and the second run came later"
    times = [json.loads(command("show", run, "--json").stdout)["time_of_day"] for run in (*runs, both)]
    assert times[2]["readings"] == times[0]["readings"] + times[1]["readings"] and times[2]["between_readings"]
    command("pack", both, "--out", tmp_path / "a.tar")
    command("unpack", tmp_path / "a.tar", "--out", tmp_path / "c")


def test_runs_that_nothing_relates_are_merged_without_a_bound_between_them(
        command, swinging_run, steady_run, begin_run_in, tmp_path):
    both = tmp_path / "both"
    said = command("merge", swinging_run, steady_run, "--out", both, *RENAMED)
    assert "no bound between the two runs" in said.stderr
    first, merged = durations(command, swinging_run), durations(command, both, code=1)
    assert {key: merged[key] for key in first} == first
    # What a run says of a counter holds wherever it is merged to.
    (tmp_path / "wandering").mkdir()
    process, wandering = begin_run_in(tmp_path / "wandering", 1, 400, rho="300")
    assert process.wait() == 0, process.stderr.read()
    command("merge", swinging_run, wandering, "--out", tmp_path / "wide", *RENAMED)
    said = " ".join(command("show", tmp_path / "wide", "--assumptions", code=1).stdout.split())
    both_alone = r"server-2\.tsc against client\.tsc, client-2\S+ against \S+ stays within rho of one value \[rho 300"
    assert re.search(both_alone, said)
    second = of_second(durations(command, steady_run))
    for key, (outcome, *_) in second.items():
        is_within = len({point.split(".")[0] for point in key[2].split(">")}) == 1
        assert merged[key][0] in ((outcome,) if is_within else (outcome, "refused")), key
    crossing = tmp_path / "crossing.toml"
    crossing.write_text('[layout]\npath = ["client.send", "client-2.response"]\n')
    shown = json.loads(command("show", both, "--layout", crossing, "--json", code=1).stdout)["stages"][0]
    assert shown["count"] == 0 < shown["refused"]


def test_runs_that_are_not_one_are_refused_and_nothing_is_left(command, swinging_run, steady_run, tmp_path):
    out = ("--out", tmp_path / "both")
    cut, changed, kinds = (shutil.copytree(steady_run, tmp_path / name) for name in ("cut", "changed", "kinds"))
    manifest = json.loads((cut / "run.json").read_text())
    del manifest["own"]
    (changed / "run.json").write_text(json.dumps(manifest | {"policies": [{"channels": "*", "policy": "null"}]}))
    (cut / "run.json").write_text(json.dumps(manifest | {"ended_unix_ms": None}))
    (kinds / "run.json").write_text(json.dumps(manifest | {"layout": manifest["layout"] | {"kinds": [0]}}))
    refused = {
        "found [] and [0] (none: all kinds)": (swinging_run, kinds, *RENAMED),
        "server in both. Rename that of the second: --rename server=server-2": (swinging_run, steady_run),
        # What the second run calls it, whatever it is to be called.
        "server in both. Rename that of the second: --rename client=server-2":
            (swinging_run, steady_run, "--rename", "client=server", "--rename", "server=other"),
        "found one twice": (swinging_run, swinging_run, *RENAMED),
        "found 'nobody'. Name one of": (swinging_run, steady_run, "--rename", "nobody=a"),
        "found no '='": (swinging_run, steady_run, "--rename", "client"),
        "stands for the whole host": (swinging_run, steady_run, "--rename", "client=host"),
        "the same policies": (swinging_run, changed, *RENAMED),
    }
    for why, words in refused.items():
        assert why in " ".join(command("merge", *words, *out, code=2).stderr.split()), why
    none = command("merge", "one", "other", "--out", "both", code=2, cwd=tmp_path).stderr
    assert "cannot open the run one: No such file" in none and "correct the path, or make one: tickscope run" in none
    assert "it has no end" in command("merge", swinging_run, cut, *RENAMED, *out, code=1).stderr
    table = next((cut / "channels").glob("*.parquet"))
    shutil.copytree(steady_run, tmp_path / "torn")
    torn = tmp_path / "torn" / table.relative_to(cut)
    torn.write_bytes(torn.read_bytes()[:-1] + b"x")
    assert "not what it was" in command("merge", swinging_run, tmp_path / "torn", *RENAMED, *out, code=1).stderr
    assert not (tmp_path / "both").exists() and not (tmp_path / ".both.part").exists()
    command("merge", swinging_run, steady_run, "--out", cut, *RENAMED, code=2)
