"""The wheel that was built of this tree: the command itself, its man page and completions, the module, its types."""

import pathlib
import subprocess
import sys
import sysconfig
import tomllib
import zipfile

import pytest
import tickscope
from conftest import TREE

COMMAND = pathlib.Path(sysconfig.get_path("scripts")) / "tickscope"
SHARED = pathlib.Path(sysconfig.get_path("data")) / "share"


def printed(*words):
    return subprocess.run([COMMAND, *words], check=True, capture_output=True).stdout


def test_the_command_is_the_binary_of_the_same_version():
    assert COMMAND.read_bytes()[:4] == b"\x7fELF"  # it starts itself again: no interpreter in collectors and probes
    version = tomllib.loads((TREE / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert printed("--version").decode() == f"tickscope {version}\n"
    assert tickscope.__version__ == version


def test_the_command_of_the_wheel_runs_an_experiment(begin_run_with, tmp_path):
    process, run = begin_run_with(COMMAND, tmp_path, 1, 200)
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()
    assert tickscope.open(run).stages().filter("stage = 'end-to-end'").project("count").fetchall()[0][0] > 0


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("bash-completion/completions/tickscope", ("completions", "bash")),
        ("zsh/site-functions/_tickscope", ("completions", "zsh")),
        ("fish/vendor_completions.d/tickscope.fish", ("completions", "fish")),
        ("man/man1/tickscope.1", ("man",)),
    ],
)
def test_what_is_installed_beside_the_command_is_what_it_prints(place, words):
    assert (SHARED / place).read_bytes() == printed(*words)


def commands():
    lines = printed("--help").decode().split("Commands:\n")[1].split("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines if line.split()[0] != "help"]


def test_man_page_and_completions_know_every_command_and_option():
    assert {"run", "show", "doctor", "collect"} <= set(commands())
    page = printed("man").decode().replace("\\-", "-")
    for command in commands():
        assert f"TICKSCOPE {command.upper()}" in page
        options = {word.strip(",") for word in printed(command, "--help").decode().split() if word.startswith("--")}
        for text in (page, *(printed("completions", shell).decode() for shell in ("bash", "zsh"))):
            assert [option for option in options if option.strip("[].") not in text] == []


def test_bash_takes_the_completions():
    script = f"source {SHARED}/bash-completion/completions/tickscope && COMP_WORDS=(tickscope sh) COMP_CWORD=1 && _tickscope tickscope sh tickscope && echo ${{COMPREPLY[@]}}"
    assert subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout == "show\n"


def test_the_wheel_is_one_for_every_python_from_3_11():
    (wheel,) = (TREE / "build/wheels").glob("*.whl")
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("tickscope/py.typed", "tickscope/_tickscope.pyi", "tickscope/queries/stages.sql"):
        assert name in names
    assert not [name for name in names if "__pycache__" in name or name.endswith((".rs", ".toml"))]


def test_types_are_seen_by_a_checker_of_somebody_elses_code(tmp_path):
    (tmp_path / "theirs.py").write_text(
        'import tickscope\nrun = tickscope.open("x")\nreveal_type(run.clock_map("b").interval(3))\nrun.stages(rho=[])\n'
    )
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", tmp_path / "theirs.py"]
    found = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path).stdout
    assert 'Revealed type is "tuple[int, int]"' in found.replace("builtins.", "")
    assert 'incompatible type "list[' in found
    assert "missing library stubs or py.typed" not in found.replace("pyarrow", "")
