"""Whole runs: listed, packed so that tar reads them, unpacked as they were, removed only when somebody says so."""

import fcntl
import json
import shutil
import struct
import subprocess
import tarfile

import pytest


@pytest.fixture
def command(tickscope):
    def run(*words, code=0):
        ended = subprocess.run([tickscope, *words], capture_output=True, text=True)
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


def test_a_run_that_is_not_what_it_was_is_neither_packed_nor_unpacked(command, swinging_run, tmp_path):
    copy = shutil.copytree(swinging_run, tmp_path / "copy")
    command("pack", copy, "--out", tmp_path / "a.tar")
    whole = (tmp_path / "a.tar").read_bytes()
    at = whole.index(b"PAR1") + 40
    long = tarfile.open(tmp_path / "escape.tar", "w")
    long.add(tmp_path / "a.tar", arcname="../out")
    long.close()
    flipped, escape = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], (tmp_path / "escape.tar").read_bytes()
    for damaged in (flipped, whole[: len(whole) // 2], whole[:-1024], b"x" * 512, escape):
        (tmp_path / "damaged.tar").write_bytes(damaged)
        assert "damaged.tar" in command("unpack", tmp_path / "damaged.tar", "--out", tmp_path / "b", code=1).stderr
        assert not (tmp_path / "b").exists() and not (tmp_path / "out").exists() and not (tmp_path / ".b.part").exists()
    table = next((copy / "channels").glob("*.parquet"))
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    assert "not what it was" in command("pack", copy, "--out", tmp_path / "c.tar", code=1).stderr
    assert not (tmp_path / "c.tar").exists()


def test_runs_are_listed_with_their_state_and_removed_only_when_somebody_says_so(command, swinging_run, tmp_path):
    folder = tmp_path / "runs"
    one = shutil.copytree(swinging_run, folder / "one")
    cut = shutil.copytree(swinging_run, folder / "cut")
    manifest = json.loads((cut / "run.json").read_text())
    manifest["ended_unix_ms"] = None
    (cut / "run.json").write_text(json.dumps(manifest))
    (folder / "torn").mkdir()
    (folder / "torn/run.json").write_text("{")
    runs = {run["run"].rsplit("/", 1)[1]: run for run in json.loads(command("runs", folder, "--json").stdout)["runs"]}
    table = json.loads(command("show", one, "--json").stdout)
    assert set(runs) == {"one", "cut", "torn"} and runs["torn"]["fault"]
    assert (runs["one"]["state"], runs["cut"]["state"]) == ("ended", "cut-off")
    assert set(runs["one"]["nodes"]) == {"client", "server"} and runs["one"]["lasted_ms"] > 0
    assert runs["one"]["findings"] == len(table["findings"]) and runs["cut"]["findings"] is None
    assert runs["one"]["stamps"] > 0 and runs["one"]["bytes"] > 0
    lo, hi = runs["one"]["time_of_day"]["first_stamp_unix_ns"]
    began, ended = (manifest_ms * 1_000_000 for manifest_ms in (manifest["started_unix_ms"], table_end(one)))
    assert lo < hi and began - 10**9 < lo and hi < ended + 10**9, "it lies in the run, as an ordinary clock has it"
    assert "--yes" in command("rm", one, code=2).stderr
    command("rm", one, folder, "--yes", code=2)
    assert one.is_dir(), "all or none"
    lock = (cut / "run.lock").open("a+")
    fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 1, 0))  # as whoever writes a run (F_OFD_SETLK)
    assert "goes on" in command("rm", cut, "--yes", code=2).stderr
    lock.close()
    command("rm", one, cut, "--yes")
    assert [path.name for path in folder.iterdir()] == ["torn"]


def table_end(run):
    return json.loads((run / "run.json").read_text())["ended_unix_ms"]
