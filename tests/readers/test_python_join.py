"""Runs in object storage that get their traces there: cut short at any file, damaged, refused; and then they have them.

Addresses are of this machine (`file://`) everywhere; `test_python_upload` joins one in S3, where moto is.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
import tickscope
from test_python_spark import keep_another, needs_spark, spark, table_of  # noqa: F401
from test_python_storage import described, large_run  # noqa: F401
from tickscope.storage import DIGESTS, Copy, Storage

KILLED = """
import os, sys
import tickscope
from tickscope.storage import Storage
tickscope.join.__globals__["send"].__globals__["at_once"] = lambda act, files: [act(file) for file in files]
address, folder, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
whole, sent = Storage._written, []
def written(storage, path, fill):
    def half(out):
        fill(out)
        out.flush()
        os.kill(os.getpid(), 9)
    if storage.address != address:
        return whole(storage, path, fill)
    sent.append(path)
    whole(storage, path, half if len(sent) > files else fill)
Storage._written = written
tickscope.join(address, folder)
"""


@pytest.fixture
def unjoined(large_run, tmp_path):  # noqa: F811
    """A run above the size up to which all is copied, which nobody joined."""
    run = pathlib.Path(shutil.copytree(large_run, tmp_path / "run"))
    shutil.rmtree(run / "traces")
    return described(run)


def listed(run):
    return [file["path"] for file in json.loads((run / DIGESTS).read_text())["files"]]


def has_traces_of(run, address):
    """The run's table by both engines, as far as the second one is here, whose driver has traces and footers alone."""
    copy = Copy(address, stamps=False)
    assert not copy.is_whole
    traces = [path for path in copy.files if path.startswith("traces/")]
    assert traces
    for path in traces:
        assert (copy.root / path).read_bytes() == (run / path).read_bytes()
    assert table_of(tickscope.open(address)) == table_of(tickscope.open(run))


def test_a_run_without_traces_gets_those_of_the_core_and_only_once(large_run, unjoined):  # noqa: F811
    address = f"file://{unjoined}"
    assert tickscope.join(address) == len([name for name in listed(large_run) if name.startswith("traces/")]) + 1
    assert listed(unjoined) == listed(large_run)
    has_traces_of(large_run, address)
    before = (unjoined / DIGESTS).read_bytes()
    assert tickscope.join(address) == 0
    assert (unjoined / DIGESTS).read_bytes() == before


@needs_spark
def test_spark_refuses_a_large_run_by_the_step_that_makes_it_readable(spark, large_run, unjoined):  # noqa: F811
    address = f"file://{unjoined}"
    with pytest.raises(tickscope.TickscopeError, match="found no traces in file://.*/run. tickscope.join, given this"):
        tickscope.open(address, connection=spark, engine="spark").stages()
    tickscope.join(address)
    found = tickscope.open(address, connection=spark, engine="spark").stages()
    assert [tuple(row) for row in found.collect()] == table_of(tickscope.open(large_run))


def test_a_join_that_was_killed_leaves_the_run_as_it_was_and_goes_on(large_run, unjoined, tmp_path):  # noqa: F811
    address, folder = f"file://{unjoined}", tmp_path / "here"
    before, names = (unjoined / DIGESTS).read_bytes(), listed(unjoined)
    traces = len(listed(large_run)) - len(names)
    for number in range(traces + 1):
        words = [sys.executable, "-c", KILLED, address, str(folder), str(number)]
        assert subprocess.run(words, check=False, capture_output=True).returncode == -9
        assert (unjoined / DIGESTS).read_bytes() == before
        assert not any(path.startswith("traces/") for path in Copy(address, stamps=False).files)
        assert table_of(tickscope.open(address)) == table_of(tickscope.open(large_run))
    assert tickscope.join(address, folder) == 1
    has_traces_of(large_run, address)


def test_what_was_fetched_is_not_fetched_again_and_what_is_damaged_is_refused_by_name(
    large_run,  # noqa: F811
    unjoined,
    tmp_path,
    monkeypatch,
):
    address, folder = f"file://{unjoined}", tmp_path / "here"
    (segment, *_) = unjoined.glob("stamps/*/point=received/part-*.parquet")
    name, whole, before = segment.relative_to(unjoined), segment.read_bytes(), (unjoined / DIGESTS).read_bytes()
    for damaged in (whole[:-9], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        segment.write_bytes(damaged)
        says = rf"expected file://.*/{name} of \d+ bytes with digest .*, found \d+ bytes .* Upload it again"
        with pytest.raises(tickscope.TickscopeError, match=says):
            tickscope.join(address, folder)
        assert not (unjoined / "traces").exists()
        assert (unjoined / DIGESTS).read_bytes() == before
    segment.write_bytes(whole)
    bytes_of = lambda file: file.read_bytes() if file.exists() else None
    tables = {path for path in listed(unjoined) if path.split("/")[0] not in ("run.json", "logs")}
    lacking = {path for path in tables if bytes_of(folder / path) != (unjoined / path).read_bytes()}
    assert {str(name)} <= lacking < tables
    taken, take = [], Storage.take
    noted = lambda storage, path, *how: [taken.append(path), take(storage, path, *how)][1]
    monkeypatch.setattr(Storage, "take", noted)
    tickscope.join(address, folder)
    assert sorted(taken) == sorted(lacking)
    has_traces_of(large_run, address)


def test_a_disk_without_room_is_refused_before_anything_is_fetched(unjoined, tmp_path, monkeypatch):
    address, folder = f"file://{unjoined}", tmp_path / "here"
    tables = [name for name in listed(unjoined) if name.split("/")[0] not in ("run.json", "logs")]
    size = lambda names: sum((unjoined / name).stat().st_size for name in names)
    fetched, traces = size(tables), size(name for name in tables if name.startswith("stamps/"))
    disk, wanted = shutil.disk_usage(tmp_path), fetched + traces
    monkeypatch.setattr(shutil, "disk_usage", lambda place: disk._replace(free=wanted - 1))
    says = rf"{wanted} bytes free in .*/here, {fetched} for .* and {traces} for its traces, found {wanted - 1}. Name"
    with pytest.raises(tickscope.TickscopeError, match=says):
        tickscope.join(address, folder)
    assert sorted(file.name for file in folder.iterdir()) == [DIGESTS, "run.json"]
    monkeypatch.setattr(shutil, "disk_usage", lambda place: disk._replace(free=wanted))
    assert tickscope.join(address, folder) > 1


def test_what_the_join_met_is_a_warning(unjoined):
    for text in ("order", "other"):
        keep_another(unjoined, text)
    described(unjoined)
    with pytest.warns(UserWarning, match="two things have the id 7: 'order' and 'other'") as told:
        tickscope.join(f"file://{unjoined}")
    assert not any("joined now" in str(one.message) for one in told)


def test_a_join_goes_on_in_a_folder_whose_disk_was_full_and_follows_a_link(unjoined, tmp_path):
    (tmp_path / "link").symlink_to("here")
    with pytest.raises(tickscope.TickscopeError, match=r"expected an ordinary file at file://.*/run\.json, found none"):
        (tmp_path / "none/run.json").mkdir(parents=True)
        tickscope.join(f"file://{tmp_path}/none", tmp_path / "link")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/.run.json.part").write_text("{")
    assert tickscope.join(f"file://{unjoined}", tmp_path / "link") > 1
    (tmp_path / "other").symlink_to("there")
    assert tickscope.join(f"file://{unjoined}", tmp_path / "other") == 0


def test_a_folder_with_other_files_and_a_run_without_a_layout_are_refused(unjoined, tmp_path):
    address, folder = f"file://{unjoined}", tmp_path / "here"
    folder.mkdir()
    (folder / "notes").touch()
    with pytest.raises(tickscope.TickscopeError, match="expected an empty folder, or .*, found other files in .*/here"):
        tickscope.join(address, folder)
    assert [file.name for file in folder.iterdir()] == ["notes"]
    manifest = json.loads((unjoined / "run.json").read_text())
    del manifest["layout"]
    (unjoined / "run.json").write_text(json.dumps(manifest))
    described(unjoined)
    with pytest.raises(tickscope.TickscopeError, match="by a layout in its run.json, found file://.*layout: inferred"):
        tickscope.join(address)
    assert not (unjoined / "traces").exists()
