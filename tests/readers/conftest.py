"""Runs of the real command for the tests in Python; the tables they leave are read by libraries that are not ours."""

import functools
import ipaddress
import itertools
import os
import pathlib
import shutil
import socket
import subprocess

import pytest

# Never downloaded: the system's own browser, or none. Who runs the tests is told (tests/run.py).
CHROMIUM = shutil.which("chromium")
IN_BROWSER = [f"test_{page}_in_browser.py" for page in ("clock_page", "hostile_texts", "perfetto", "report")]
collect_ignore = [] if CHROMIUM else IN_BROWSER

TREE = pathlib.Path(__file__).resolve().parents[2]

RUN_FILE = """
run = {{ name = "read", seconds = {seconds} }}
network.kind = "loopback"
[clock]
reference = "client"
rho = "{rho}"
same_boot = "{same_boot}"
probes_hz = {probes_hz}
probe_port = 7411
[[node]]
name = "server"
address = "{server}"
command = ["{echo}", "server", "{{address}}", "7400"]
ready = 7400
{inject}
[[node]]
name = "client"
address = "{client}"
command = ["{echo}", "client", "{{server.address}}", "7400", "--rate", "{rate}", "--seconds", "{{seconds}}",
  "--late", "60000"]
ends_run = true
[evidence]
kernel_probes = {kernel_probes}
[layout]
path = ["client.send", "server.received", "server.reply", "client.response"]
branches = ["client.send > client.sent"]
"""


def own_address(serials=itertools.count()):
    """An address of loopback that no other living test has, by the process and a serial number."""
    number = (1 + os.getpid() % 8191) * 1024 + next(serials) % 1024  # as in crates/cli/tests/site/mod.rs
    return str(ipaddress.IPv4Address((127 << 24) + number))


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("0.0.0.0", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def tickscope():
    """The command: TICKSCOPE names it, else the build in the tree, made if it is missing."""
    named = os.environ.get("TICKSCOPE")
    if named:
        return pathlib.Path(named)
    subprocess.run(["cargo", "build", "-q", "--workspace", "--bin", "tickscope"], cwd=TREE, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target")) / "debug/tickscope"


@pytest.fixture(scope="session")
def udp_echo(tmp_path_factory):
    program = tmp_path_factory.mktemp("build") / "udp-echo"
    source = TREE / "targets/udp-echo/udp-echo.c"
    subprocess.run([TREE / "tests/compiled.py", "cc", "-D_GNU_SOURCE", "-o", program, source], check=True)
    return program


@pytest.fixture
def begin_run(begin_run_in, tmp_path):
    """Starts a run over loopback; gives its process and its directory."""
    return functools.partial(begin_run_in, tmp_path)


@pytest.fixture(scope="session")
def begin_run_in(begin_run_with, tickscope):
    """The same in a folder of choice."""
    return functools.partial(begin_run_with, tickscope)


@pytest.fixture(scope="session")
def begin_run_with(udp_echo):
    """The same with a command of choice."""

    def begin(command, folder, seconds, rate, rho="unknown", probes_hz=1000, inject="", kernel_probes=True,
              same_boot="ignore"):
        settings = {"server": own_address(), "client": own_address(), "kernel_probes": str(kernel_probes).lower(),
                    "same_boot": same_boot}
        text = RUN_FILE.format(
            seconds=float(seconds), rate=rate, rho=rho, probes_hz=probes_hz, inject=inject, echo=udp_echo, **settings
        )
        (folder / "run.toml").write_text(text)
        words = [command, "run", folder / "run.toml", "--out", folder / "run", "--json"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE), folder / "run"

    return begin


@pytest.fixture(scope="session")
def swinging_run(begin_run_in, tmp_path_factory):
    """2 s of a server whose clock swings by 150 ppm, which the run declares; not to be changed."""
    inject = "inject = { offset = 1000000000, drift_ppb = 12500, wander_ppb = 150000, wander_period = 4000000000 }"
    process, run = begin_run_in(tmp_path_factory.mktemp("swinging"), 2, 1000, rho="laptop", probes_hz=400, inject=inject)
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()
    return run


@pytest.fixture(scope="session")
def steady_run(begin_run_in, tmp_path_factory):
    """A second of the same program, with clocks that are declared to be steadier; not to be changed."""
    process, run = begin_run_in(tmp_path_factory.mktemp("steady"), 1, 1000, rho="lab")
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()
    return run


@pytest.fixture
def swinging_copy(swinging_run, tmp_path):
    """The same, to be changed."""
    return pathlib.Path(shutil.copytree(swinging_run, tmp_path / "copy"))


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright  # where there is no browser, there need be none of this

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(browser):
    """Opens a page without a network; `page.trouble` gathers what should not be: messages, errors, requests."""
    contexts = []

    def open_it(place, width, dark):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(200_000)  # the processors may be busy with other tests
        page.trouble = []
        page.on("console", lambda message: page.trouble.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.trouble.append(f"error: {error}"))
        page.on("request", lambda request: page.trouble.append(request.url) if request.url != place else None)
        page.goto(place)
        return page

    yield open_it
    for context in contexts:
        context.close()
