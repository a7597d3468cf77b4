"""Runs in object storage: the core's digits by both engines; what storage lacks, or has otherwise, is refused by name.

Addresses are of this machine (`file://`) everywhere, and of an S3 server where moto is (`scripts/setup.sh spark`).
"""

import collections
import http.client
import http.server
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest
import tickscope
from pyarrow import fs
from test_python_spark import KEYS, needs_spark, spark, table_of  # noqa: F401
from tickscope import _tickscope
from tickscope.portable import COLUMNS
from tickscope.storage import DIGESTS, WHOLE_BYTES, Copy, shown

needs_moto = pytest.mark.skipif(
    importlib.util.find_spec("moto") is None, reason="there is no moto in .venv. Run scripts/setup.sh spark"
)


def described(run):
    """Writes digests.json anew, of the files that are there."""
    told = json.loads((run / DIGESTS).read_text())
    left_out = (DIGESTS, "run.lock", "report.html")
    names = [name for name in run.rglob("[!.]*") if name.is_file() and name.name not in left_out]
    files = [name for name in names if name.relative_to(run).parts[0] not in ("durations", "figures")]
    entry = lambda bytes: {"bytes": len(bytes), "xxh3_128": _tickscope.digest(bytes)}
    entries = [{"path": str(name.relative_to(run))} | entry(name.read_bytes()) for name in sorted(files)]
    lines = ",\n".join(json.dumps(of, separators=(",", ":")) for of in sorted(entries, key=lambda of: of["path"]))
    text = f'{{\n"schema": {told["schema"]},\n"run": "{told["run"]}",\n"files": [\n{lines}\n],\n"own": "'
    (run / DIGESTS).write_text(f'{text}{_tickscope.digest(text.encode())}"\n}}\n')
    return run


@pytest.fixture(scope="session")
def large_run(swinging_run, tmp_path_factory):
    """A run of more than `WHOLE_BYTES`, most of them in a log that no figure needs; not to be changed."""
    run = pathlib.Path(shutil.copytree(swinging_run, tmp_path_factory.mktemp("large") / "run"))
    (run / "logs").mkdir()
    with (run / "logs/empty.log").open("wb") as log:
        log.truncate(WHOLE_BYTES + 1)
    return described(run)


@pytest.fixture
def copied(large_run, tmp_path):
    """The same, to be changed."""
    return pathlib.Path(shutil.copytree(large_run, tmp_path / "run"))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """An S3 server of this machine; gives its process and its port."""
    process, port = started(tmp_path_factory.mktemp("server") / "log")
    yield process, port
    process.kill()
    process.wait()


def started(log):
    os.environ.update(KEYS)
    with log.open("wb") as out:
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        process = subprocess.Popen(words, stdout=out, stderr=out)
    return process, serving(process, log)


def serving(process, log):
    """The port that a server says it listens to."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        said = log.read_text()
        if "http://127.0.0.1:" in said:
            port = int(said.split("http://127.0.0.1:")[1].split()[0])
            with socket.create_connection(("127.0.0.1", port)):
                return port
        time.sleep(0.05)
    raise AssertionError(f"expected a server, found: {log.read_text()}")


def uploaded(run, port, folder):
    """The address of a run on that server, once it is there."""
    options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    address = f"s3://runs/{folder}?{options}"
    storage, place = fs.FileSystem.from_uri(address)
    storage.create_dir("runs", recursive=False)
    fs.copy_files(str(run), place, destination_filesystem=storage)
    return address


def test_a_run_at_an_address_gives_the_table_of_its_directory(swinging_run, large_run):
    for run in (swinging_run, large_run):
        stored = tickscope.open(f"file://{run}")
        assert table_of(stored) == table_of(tickscope.open(run))
        assert stored.causes().fetchall() == tickscope.open(run).causes().fetchall()
        assert repr(stored) == f"<tickscope.Run file://{run}>"
        assert not (stored.root / "logs").exists()


@needs_moto
def test_a_run_in_s3_gives_the_table_of_its_directory(swinging_run, server):
    _, port = server
    stored = tickscope.open(uploaded(swinging_run, port, "swinging"))
    assert table_of(stored) == table_of(tickscope.open(swinging_run))
    assert repr(stored) == "<tickscope.Run s3://runs/swinging>"


class Faulty(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the server at `port`; each path fails `times` when it is first asked for: `how`."""

    protocol_version = "HTTP/1.1"
    port, times, how = 0, 0, ""
    failed = collections.Counter()

    def passed_on(self):
        path = self.path.split("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fails = self.command == "GET" and path.count("/") > 2 and self.failed[path] < self.times
        self.failed[path] += fails
        if fails and self.how == "refused":
            self.answer(503, {}, b"<Error><Code>ServiceUnavailable</Code></Error>")
            return
        server = http.client.HTTPConnection("127.0.0.1", self.port)
        server.request(self.command, self.path, body, dict(self.headers))
        answer = server.getresponse()
        self.answer(answer.status, dict(answer.headers), answer.read(), cut=fails)
        server.close()

    def answer(self, code, headers, body, cut=False):
        self.send_response_only(code)
        own = ("connection", "transfer-encoding")
        headers = {name: value for name, value in headers.items() if name.lower() not in own}
        lengths = {} if "Content-Length" in headers else {"Content-Length": str(len(body))}
        for name, value in (headers | lengths | {"Connection": "close"}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = passed_on

    def log_message(self, *_):
        pass


@needs_moto
@pytest.mark.parametrize("how", ["refused", "cut"])
def test_storage_that_fails_and_then_does_not_gives_the_same_table_and_one_that_goes_on_is_named(
    swinging_run, server, monkeypatch, how
):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("tickscope.storage._FIRST_PAUSE_S", 0.001)
    _, port = server
    address = uploaded(swinging_run, port, f"faulty-{how}")
    for times in (2, 1000):
        faults = {"port": port, "times": times, "how": how, "failed": collections.Counter()}
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Faults", (Faulty,), faults))
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        through = address.replace(f"127.0.0.1:{port}", f"127.0.0.1:{proxy.server_port}")
        try:
            if times == 2:
                assert table_of(tickscope.open(through)) == table_of(tickscope.open(swinging_run))
                assert sum(faults["failed"].values()) > 20
            else:
                with pytest.raises(tickscope.TickscopeError, match=f"cannot read s3://runs/faulty-{how}/run.json: "):
                    tickscope.open(through)
                assert 1 < max(faults["failed"].values()) < 200
        finally:
            proxy.shutdown()
            proxy.server_close()


@needs_moto
@needs_spark
def test_the_table_on_spark_from_s3_is_that_of_the_core_and_the_driver_has_footers_alone(
    spark,  # noqa: F811
    large_run,
    server,
    monkeypatch,
):
    monkeypatch.setattr("tickscope.storage._FOOTER_BYTES", 8)
    _, port = server
    stored = tickscope.open(uploaded(large_run, port, "large"), connection=spark, engine="spark")
    assert [tuple(row) for row in stored.stages().collect()] == table_of(tickscope.open(large_run))
    (segment, *_) = stored._run.root.glob("stamps/*/point=received/part-*.parquet")
    assert segment.stat().st_size == (large_run / segment.relative_to(stored._run.root)).stat().st_size
    assert segment.read_bytes()[: segment.stat().st_size // 4].count(0) == segment.stat().st_size // 4


def test_what_storage_lacks_or_has_otherwise_is_said_as_of_a_directory(copied):
    """Names, and not figures without a word: the same warnings as of the run's directory, but for its place."""
    (segment, *_) = copied.glob("stamps/*/point=received/part-*.parquet")
    segment.write_bytes(segment.read_bytes()[:-9])
    next(copied.glob("brackets/*/*/*.parquet")).unlink()
    said = []
    for place in (str(copied), f"file://{copied}"):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            tickscope.open(place)
        said.append([str(one.message).replace("file://", "") for one in told])
        assert {one.category for one in told} == {tickscope.DamagedRunWarning}
    assert said[0] == said[1]
    assert any("point=received" in text for text in said[0])
    assert any("brackets/" in text and "found no such file" in text for text in said[0])


def test_a_table_outlives_the_run_that_was_copied_for_it(swinging_run):
    of = lambda table: sorted(table.fetchall(), key=repr)
    for ask in (lambda run: run.durations(), lambda run: run.stamps("server.received"), lambda run: run.traces()):
        table = ask(tickscope.open(f"file://{swinging_run}"))  # in an assert it would hold the run
        assert of(table) == of(ask(tickscope.open(swinging_run)))


def test_what_is_no_file_or_longer_than_listed_is_neither_waited_for_nor_copied(copied):
    (bracket, *_) = copied.glob("brackets/*/*/*.parquet")
    (segment, *_) = copied.glob("stamps/*/point=received/part-*.parquet")
    size = segment.stat().st_size
    for file in (bracket, segment):
        with file.open("r+b") as out:
            out.truncate(1 << 40)
    for stamps in (True, False):
        copy = Copy(f"file://{copied}", stamps)
        assert f"{bracket.relative_to(copied)}" in copy.changed
        brought = (copy.root / bracket.relative_to(copied)).stat()
        assert brought.st_size <= 8 << 20
        assert (copy.root / segment.relative_to(copied)).stat().st_blocks * 512 <= size + (8 << 20)
    bracket.unlink()
    os.mkfifo(bracket)
    with pytest.raises(tickscope.TickscopeError, match=f"expected an ordinary file at file://.*{bracket.name}"):
        Copy(f"file://{copied}", stamps=True)
    with (copied / DIGESTS).open("r+b") as out:
        out.truncate(1 << 40)
    with pytest.raises(tickscope.TickscopeError, match=f"expected file://.*{DIGESTS} of 268435456 bytes at most"):
        Copy(f"file://{copied}", stamps=True)


def test_keys_in_an_address_are_in_no_message():
    for keys in ("AKIAID:se/cr+et", "AKIAID:se%2Fcr+et", "AKIAID:se cr", "AKIAID:se%zz"):
        with pytest.raises(tickscope.TickscopeError) as refused:
            tickscope.open(f"s3://{keys}@bucket/run?endpoint_override=127.0.0.1:1&scheme=http&nonsense=1")
        assert "s3://bucket/run" in str(refused.value)
        assert not any(part in str(refused.value) for part in ("AKIAID", "cr", "se%", "zz@"))
    assert shown("s3://bucket/run@1?region=x") == "s3://bucket/run@1"


@pytest.mark.parametrize("ask", ["stages", "durations", "causes", "clock_map"])
def test_a_flipped_bit_in_the_evidence_of_a_large_run_is_told_by_whatever_is_asked(copied, ask):
    """Opening reads footers alone of what is so large; figures would be others without a word."""
    (bracket, *_) = copied.glob("brackets/reference=client.*/domain=server.*/*.parquet")
    whole = bytearray(bracket.read_bytes())
    whole[len(whole) // 3] ^= 1
    bracket.write_bytes(whole)
    for place in (str(copied), f"file://{copied}"):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", UserWarning)
            run = tickscope.open(place)
            assert bool(told) == place.startswith("file://")
            run.clock_map("server") if ask == "clock_map" else getattr(run, ask)()
        assert {one.category for one in told} == {tickscope.DamagedRunWarning}
        assert all(f"{place}/{bracket.relative_to(copied)}" in str(one.message) for one in told)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda run: (run / DIGESTS).unlink(), f"to its end, found no {DIGESTS} in file://.*/run: .* not uploaded"),
        (lambda run: (run / "run.json").unlink(), "expected run.json in file://.*/run, found none"),
        (lambda run: (run / DIGESTS).write_text('{"files": [{"path": "a"}]}'), "a list of files .* KeyError 'bytes'"),
        (lambda run: (run / DIGESTS).write_text('{"files": [{"path": "stamps/../../a", "bytes": 1, "xxh3_128": ""}]}'),
         r"paths within the run .*, found 'stamps/\.\./\.\./a'"),
    ],
)  # fmt: skip
def test_a_folder_in_storage_that_is_no_whole_run_is_refused_with_what_helps(copied, spoil, says):
    spoil(copied)
    with pytest.raises(tickscope.TickscopeError, match=says):
        tickscope.open(f"file://{copied}")


def test_an_address_of_nothing_is_refused(tmp_path):
    with pytest.raises(tickscope.TickscopeError, match="expected an address such as s3://BUCKET/RUN, found none://a/b"):
        tickscope.open("none://a/b")
    with pytest.raises(tickscope.TickscopeError, match="expected run.json in file://.*none, found none"):
        tickscope.open(f"file://{tmp_path}/none")


def test_many_runs_are_one_table_with_their_names_and_each_counts_once(swinging_run, steady_run, tmp_path):
    for name, run in (("a", swinging_run), ("b", steady_run)):
        shutil.copytree(run, tmp_path / "runs" / name)
    (tmp_path / "runs/latest").symlink_to("b")
    (tmp_path / "runs/notes").mkdir()
    singles = [(name, tickscope.open(tmp_path / "runs" / name)) for name in ("a", "b")]
    of = lambda relation: sorted(relation.fetchall(), key=repr)
    for place in (f"{tmp_path}/runs/*", f"file://{tmp_path}/runs/[!ln]*"):
        runs = tickscope.open([place])
        assert list(runs) == ["a", "b"]
        assert len(runs) == 2
        for ask in (
            lambda run: run.stages(),
            lambda run: run.causes(),
            lambda run: run.durations(),
            lambda run: run.stage_durations("end-to-end"),
        ):
            found, expected = ask(runs), [ask(run).project(f"'{name}' as run, *") for name, run in singles]
            assert found.columns == expected[0].columns
            assert of(found) == of(expected[0].union(expected[1]))
    shutil.copytree(swinging_run, tmp_path / "odd/x%41 [b]#c?")
    shutil.copytree(steady_run, tmp_path / "odd/xA")
    (tmp_path / "odd/latest").symlink_to("xA")
    odd = tickscope.open([f"file://{tmp_path}/odd/*"])
    assert sorted(pathlib.Path(run.root).name for run in odd._runs.values()) == ["x%41 [b]#c?", "xA"]
    shutil.copytree(tmp_path / "runs/a", tmp_path / "copies/c")
    with pytest.raises(tickscope.TickscopeError, match="run once, found run [0-9a-f]{16} at .*runs/a and .*copies/c"):
        tickscope.open([f"{tmp_path}/runs/*", f"{tmp_path}/copies/c"])
    with pytest.raises(tickscope.TickscopeError, match="expected runs at .*none/., found none"):
        tickscope.open([f"{tmp_path}/none/*"])
    with pytest.raises(tickscope.TickscopeError, match="found an empty list"):
        tickscope.open([])
    with pytest.raises(tickscope.TickscopeError, match="runs/a: expected a stage of the layout"):
        tickscope.open([f"{tmp_path}/runs/*"]).stage_durations("none")


@needs_spark
def test_many_runs_on_spark_are_the_table_of_each(spark, swinging_run, steady_run):  # noqa: F811
    places = [f"file://{swinging_run}", str(steady_run)]
    found = tickscope.open(places, connection=spark, engine="spark")
    tables = {swinging_run: swinging_run.parent.name, steady_run: steady_run.parent.name}
    stages = found.stages()
    rows = [tuple(row) for row in stages.collect()]
    expected = [(name, *row) for name, run in zip(found, tables, strict=True) for row in table_of(tickscope.open(run))]
    assert stages.columns == ["run", *COLUMNS]
    assert rows == expected
    counted = {row["run"]: row["count"] for row in found.stage_durations("end-to-end").groupBy("run").count().collect()}
    assert counted == {row[0]: row[5] for row in expected if row[1] == "end-to-end"}


@needs_spark
def test_a_segment_that_is_not_as_it_was_is_refused_by_the_executor_by_name(spark, copied):  # noqa: F811
    (segment, *_) = copied.glob("stamps/*/point=received/part-*.parquet")
    whole = bytearray(segment.read_bytes())
    whole[len(whole) // 3] ^= 1
    segment.write_bytes(whole)
    with pytest.raises(tickscope.TickscopeError, match=r"expected file://.*point=received/part.* digest .*, found"):
        tickscope.open(f"file://{copied}", connection=spark, engine="spark").stages()
    with pytest.warns(tickscope.DamagedRunWarning, match=f"{segment.name} of .* digest"):
        table_of(tickscope.open(f"file://{copied}"))  # the core's figures are of the traces, which are as they were
    segment.unlink()
    for place in (str(copied), f"file://{copied}"):
        with pytest.warns(tickscope.DamagedRunWarning, match="found no such file"):
            opened = tickscope.open(place, connection=spark, engine="spark")
        with pytest.raises(tickscope.TickscopeError, match=r"every segment of \w+.received .*: .*parquet is gone"):
            opened.stages()
    segment.write_bytes(whole)
    shutil.rmtree(copied / "traces")
    told = described(copied)
    with pytest.raises(tickscope.TickscopeError, match="expected a run that was joined, found no traces in file://"):
        tickscope.open(f"file://{told}", connection=spark, engine="spark").stages()


@needs_moto
@needs_spark
def test_storage_that_fails_in_the_middle_is_refused_by_the_name_of_what_it_did_not_hand_out(
    spark,  # noqa: F811
    large_run,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    process, port = started(tmp_path / "log")
    try:
        address = uploaded(large_run, port, "going")
        stored = tickscope.open(address, connection=spark, engine="spark")
    finally:
        process.kill()
        process.wait()
    with pytest.raises(tickscope.TickscopeError, match=r"cannot read s3://runs/going/stamps/node=\w+/point=.*part-"):
        stored.stages()
    with pytest.raises(tickscope.TickscopeError, match=r"cannot read s3://runs/going/run.json: .*; open the run again"):
        tickscope.open(address)


@needs_moto
def test_an_upload_that_was_cut_short_is_no_run_or_names_what_is_missing(swinging_run, server, tmp_path):
    """Files in the order of their names, as most programs send them, and with the digests last."""
    _, port = server
    names = sorted(str(name.relative_to(swinging_run)) for name in swinging_run.rglob("*") if name.is_file())
    late = [name for name in names if name != DIGESTS] + [DIGESTS]
    for number, (order, sent) in enumerate([(names, len(names) - 4), (late, len(late) - 1)]):
        part = tmp_path / str(number)
        for name in [*order[:sent], "run.json"]:
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(swinging_run / name, part / name)
        address = uploaded(part, port, f"part{number}")
        if order is late:
            with pytest.raises(tickscope.TickscopeError, match="is not uploaded wholly"):
                tickscope.open(address)
            continue
        with pytest.warns(tickscope.DamagedRunWarning) as told:
            tickscope.open(address)
        said = " ".join(str(one.message) for one in told)
        missing = [name for name in names[sent:] if name.split("/")[0] in ("stamps", "traces")]
        assert missing
        assert all(f"s3://runs/part{number}/{name}" in said for name in missing)
