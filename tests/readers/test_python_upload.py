"""Runs on their way into object storage: killed at any file, damaged, refused; each stamp once, or no run at all.

Addresses are of this machine (`file://`) everywhere, and of an S3 server where moto is (`scripts/setup.sh spark`).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import tickscope
from conftest import free_port, own_address
from pyarrow import fs
from test_python_spark import needs_spark, spark, table_of  # noqa: F401
from test_python_storage import needs_moto, server, started  # noqa: F401
from tickscope.storage import DIGESTS, Storage

OPTIONS = "endpoint_override=127.0.0.1:{}&scheme=http&region=us-east-1&allow_bucket_creation=true"
KILLED = """
import io, os, sys
import tickscope
from tickscope.storage import Storage
tickscope.upload.__globals__["at_once"] = lambda act, files: [act(file) for file in files]
run, address, files, part = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "part"
whole, sent = Storage._written, []
def written(storage, path, fill):
    if len(sent) == files:
        filled = io.BytesIO()
        fill(filled)
        half = filled.getvalue()[: len(filled.getvalue()) // 2]
        if part and address.startswith("file://"):
            whole(storage, path, lambda out: out.write(half))
        elif part:
            stream = storage._files.open_output_stream(f"{storage.place}/{path}")
            stream.write(half)
        os.kill(os.getpid(), 9)
    sent.append(path)
    whole(storage, path, fill)
Storage._written = written
tickscope.upload(run, address)
"""


def killed(run, address, files, part=True):
    """Sends so many files, and half of the next one, before it is killed."""
    words = [sys.executable, "-c", KILLED, str(run), address, str(files), "part" if part else "whole"]
    assert subprocess.run(words, check=False, capture_output=True).returncode == -9


def listed(run):
    return [file["path"] for file in json.loads((run / DIGESTS).read_text())["files"]]


def goes_on_after_kills(run, address):
    """Kills at the first file, within, before and at the last one; then goes on."""
    files = len(listed(run)) + 1
    for number in (0, 1, 3, files - 7, 1, 0):
        killed(run, address, number)
        with pytest.raises(tickscope.TickscopeError, match="found none|is not uploaded wholly"):
            tickscope.open(address)
    sent = tickscope.upload(run, address)
    assert 0 < sent < files
    assert tickscope.upload(run, address) == 0
    stored = tickscope.open(address)
    assert table_of(stored) == table_of(tickscope.open(run))
    for name in listed(run):
        if name.split("/")[0] in ("stamps", "traces", "brackets"):
            assert (stored.root / name).read_bytes() == (run / name).read_bytes()


def test_an_upload_that_was_killed_is_no_run_and_goes_on_to_the_same_bytes(swinging_run, tmp_path):
    goes_on_after_kills(swinging_run, f"file://{tmp_path}/sent")


@needs_moto
def test_an_upload_to_s3_that_was_killed_is_no_run_and_goes_on_to_the_same_bytes(swinging_run, server):  # noqa: F811
    options = OPTIONS.format(server[1])
    storage, _ = fs.FileSystem.from_uri(f"s3://runs/none?{options}")
    storage.create_dir("runs", recursive=False)
    goes_on_after_kills(swinging_run, f"s3://runs/killed?{options}")


def test_no_file_but_the_lists_is_read_whole_and_pieces_are_the_same_bytes(swinging_run, tmp_path, monkeypatch):
    monkeypatch.setattr("tickscope.storage._PIECE_BYTES", 1000)
    read, text = set(), Storage.text
    monkeypatch.setattr(Storage, "text", lambda storage, path: [read.add(path), text(storage, path)][1])
    for folder in ("sent", "again"):
        shutil.rmtree(tmp_path / "sent/stamps", ignore_errors=True)
        (tmp_path / "sent" / DIGESTS).unlink(missing_ok=True)
        assert tickscope.upload(swinging_run, f"file://{tmp_path}/sent") > 1, folder
        for name in listed(swinging_run):
            assert (tmp_path / "sent" / name).read_bytes() == (swinging_run / name).read_bytes()
    assert read == {DIGESTS, "run.json"}
    assert table_of(tickscope.open(f"file://{tmp_path}/sent")) == table_of(tickscope.open(swinging_run))


def changed(storage, place):
    """Writes other bytes of the same size."""
    with storage.open_input_file(place) as file:
        content = bytearray(file.read())
    content[len(content) // 2] ^= 1
    with storage.open_output_stream(place) as file:
        file.write(content)


def sends_what_has_another_content(run, address):
    storage, place = fs.FileSystem.from_uri(address)
    names = [name for name in listed(run) if name.startswith(("stamps/", "traces/"))]
    tickscope.upload(run, address)
    for spoiled in ([], names[:1], names[-2:]):
        storage.delete_file(f"{place}/{DIGESTS}")
        for name in spoiled:
            changed(storage, f"{place}/{name}")
        assert tickscope.upload(run, address) == len(spoiled) + 1
        for name in names:
            with storage.open_input_file(f"{place}/{name}") as file:
                assert file.read() == (run / name).read_bytes()


def test_a_file_of_the_same_size_and_another_content_is_sent_again(swinging_run, tmp_path):
    sends_what_has_another_content(swinging_run, f"file://{tmp_path}/sent")


@needs_moto
def test_a_file_in_s3_of_the_same_size_and_another_content_is_sent_again(
    swinging_run,
    server,  # noqa: F811
    monkeypatch,
):
    options = OPTIONS.format(server[1])
    storage, _ = fs.FileSystem.from_uri(f"s3://runs/none?{options}")
    storage.create_dir("runs", recursive=False)
    sends_what_has_another_content(swinging_run, f"s3://runs/spoiled?{options}")
    # Where storage names no MD5, what is there is read back.
    monkeypatch.setattr("tickscope.storage._etag", lambda file: "0" * 32 + "-2")
    sends_what_has_another_content(swinging_run, f"s3://runs/unnamed?{options}")


STORED = """
run = {{ name = "stored", seconds = 3 }}
storage.runs = "s3://runs/straight"
[clock]
reference = "client"
same_boot = "ignore"
probe_port = {port}
[layout]
path = ["client.send", "server.received", "server.reply", "client.response"]
[[node]]
name = "server"
connect = ["env"]
agent = "{agent}"
address = "{server}"
files = ["{echo}"]
command = ["./udp-echo", "server", "{{address}}", "7400"]
ready = 7400
environment = {{ TICKSCOPE_BLOCK_BYTES = "4096", TICKSCOPE_POOL_BYTES = "131072" }}
[[node]]
name = "client"
connect = ["env"]
agent = "{agent}"
address = "{client}"
files = ["{echo}"]
command = ["./udp-echo", "client", "{{server.address}}", "7400", "--rate", "1000", "--seconds", "{{seconds}}"]
ends_run = true
environment = {{ TICKSCOPE_BLOCK_BYTES = "4096", TICKSCOPE_POOL_BYTES = "131072" }}
"""


@needs_moto
@needs_spark
def test_a_run_whose_nodes_put_their_segments_there_is_asked_there_by_both_engines(
    request,
    spark,  # noqa: F811
    server,  # noqa: F811
    udp_echo,
    tmp_path,
    monkeypatch,
):
    agent, port = request.getfixturevalue("tickscope"), server[1]
    options = OPTIONS.format(port)
    storage, _ = fs.FileSystem.from_uri(f"s3://runs/none?{options}")
    storage.create_dir("runs", recursive=False)
    places = {"agent": agent, "echo": udp_echo, "server": own_address(), "client": own_address(), "port": free_port()}
    (tmp_path / "stored.toml").write_text(STORED.format(**places))
    homes = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment = os.environ | homes | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "no_proxy": "*"}
    words = [agent, "run", tmp_path / "stored.toml", "--out", tmp_path / "run"]
    ended = subprocess.run(words, env=environment, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert 'tickscope.open("s3://runs/straight/run") asks it' in ended.stdout
    here = {str(file.relative_to(tmp_path / "run")) for file in (tmp_path / "run").rglob("part-*.parquet")}
    straight = [name for name in listed(tmp_path / "run") if name.startswith("stamps/") and name not in here]
    assert len(straight) > 4
    fs.copy_files("runs/straight/run", str(tmp_path / "fetched"), source_filesystem=storage)
    fetched = table_of(tickscope.open(tmp_path / "fetched"))
    assert fetched[0][4] > 2000
    address = f"s3://runs/straight/run?{options}"
    assert table_of(tickscope.open(address)) == fetched
    stored = tickscope.open(address, connection=spark, engine="spark")
    assert [tuple(row) for row in stored.stages().collect()] == fetched
    with pytest.raises(tickscope.TickscopeError, match="that they lie in s3://runs/straight/run; once"):
        tickscope.open(tmp_path / "run")
    # As if it were too large to be joined by whoever asks.
    monkeypatch.setattr("tickscope.storage.WHOLE_BYTES", 0)
    with pytest.raises(tickscope.TickscopeError, match="no traces in s3://runs/straight/run. tickscope.join, given"):
        tickscope.open(address, connection=spark, engine="spark").stages()
    assert tickscope.join(address) > 1
    stored = tickscope.open(address, connection=spark, engine="spark")
    assert not stored._run.copy.is_whole
    assert [tuple(row) for row in stored.stages().collect()] == fetched
    assert table_of(tickscope.open(address)) == fetched
    words = [agent, "finish", tmp_path / "run"]
    assert subprocess.run(words, env=environment, check=False, capture_output=True).returncode == 0
    assert table_of(tickscope.open(address)) == fetched
    assert tickscope.join(address) == 0


@needs_moto
def test_storage_that_fails_while_a_run_is_sent_is_named(swinging_run, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    process, port = started(tmp_path / "log")
    options = OPTIONS.format(port)
    try:
        storage, _ = fs.FileSystem.from_uri(f"s3://runs/none?{options}")
        storage.create_dir("runs", recursive=False)
        killed(swinging_run, f"s3://runs/fails?{options}", 3)
    finally:
        process.kill()
        process.wait()
    with pytest.raises(tickscope.TickscopeError, match=r"cannot (read|write) s3://runs/fails"):
        tickscope.upload(swinging_run, f"s3://runs/fails?{options}")


def test_a_file_that_storage_does_not_take_is_named_and_the_others_stay(swinging_run, tmp_path):
    blocked = [name for name in listed(swinging_run) if name.startswith("traces/")][-1]
    (tmp_path / "sent" / blocked).mkdir(parents=True)
    with pytest.raises(tickscope.TickscopeError, match=rf"cannot write file://.*/{blocked}: .*; try again"):
        tickscope.upload(swinging_run, f"file://{tmp_path}/sent")
    assert not (tmp_path / "sent" / DIGESTS).exists()
    (tmp_path / "sent" / blocked).rmdir()
    assert tickscope.upload(swinging_run, f"file://{tmp_path}/sent") < len(listed(swinging_run))
    assert table_of(tickscope.open(f"file://{tmp_path}/sent")) == table_of(tickscope.open(swinging_run))


def test_what_is_no_whole_run_or_goes_where_another_is_is_refused(swinging_run, steady_run, tmp_path):
    copy = pathlib.Path(shutil.copytree(swinging_run, tmp_path / "copy"))
    (segment, *_) = copy.glob("stamps/*/point=received/part-*.parquet")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(tickscope.TickscopeError, match=r"expected .*point=received.* digest .*, found .*Restore it"):
        tickscope.upload(copy, f"file://{tmp_path}/sent")
    assert not (tmp_path / "sent" / DIGESTS).exists()
    segment.write_bytes(whole)
    tickscope.upload(copy, f"file://{tmp_path}/sent")
    with pytest.raises(tickscope.TickscopeError, match=r"nothing or this run at file://.*/sent, found another"):
        tickscope.upload(steady_run, f"file://{tmp_path}/sent")
    (copy / DIGESTS).unlink()
    with pytest.raises(tickscope.TickscopeError, match="that has come to its end, found .*it has no digests.json"):
        tickscope.upload(copy, f"file://{tmp_path}/other")
    assert not (tmp_path / "other").exists()
