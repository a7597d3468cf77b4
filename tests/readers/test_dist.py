"""What `make dist` made: installed, or asked for, as somebody does who has neither this repository nor a compiler."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib

import pytest
from conftest import TREE

DIST = TREE / "build/dist"
VERSION = tomllib.loads((TREE / "Cargo.toml").read_text())["workspace"]["package"]["version"]
MACHINE = os.uname().machine

pytestmark = pytest.mark.skipif(not (DIST / "maven").is_dir(), reason="make dist was not run: build/dist/maven")


def printed(*words, **how):
    return subprocess.run(words, check=True, capture_output=True, text=True, **how).stdout


def wheel():
    (found,) = DIST.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with the wheel alone, made without a network and without any program but Python."""
    place = tmp_path_factory.mktemp("installed")
    printed(sys.executable, "-m", "venv", place / "venv")
    printed(place / "venv/bin/pip", "install", "--no-index", "--no-deps", wheel(), env={"PATH": "/nowhere"})
    # The packages that it depends on, which pip would fetch, and nothing else of the tests' own environment.
    (place / "others").mkdir()
    for package in pathlib.Path(__import__("duckdb").__file__).parent.parent.iterdir():
        if not package.name.startswith("tickscope"):
            (place / "others" / package.name).symlink_to(package)
    return place


def test_the_wheel_serves_every_python_from_3_11_and_says_which_c_library_it_needs():
    tag = re.fullmatch(rf"tickscope-{VERSION}-cp311-abi3-manylinux_2_(\d+)_{MACHINE}(\..*)?\.whl", wheel().name)
    assert tag, wheel().name
    files = DIST.parent / "dist-wheel"
    printed(sys.executable, "-m", "zipfile", "-e", wheel(), files)
    command = files / f"tickscope-{VERSION}.data/scripts/tickscope"
    for binary in (command, *files.glob("tickscope/*.so")):
        needs = re.findall(r"GLIBC_2\.(\d+)", printed("readelf", "--version-info", "--wide", binary))
        assert needs and max(map(int, needs)) <= int(tag[1]), f"{binary.name} needs another than the tag says"


def test_the_wheel_is_installed_without_network_or_compiler_and_reads_a_run(installed):
    paths = {"PATH": "/nowhere", "PYTHONPATH": str(installed / "others")}
    assert printed(installed / "venv/bin/tickscope", "--version", env=paths) == f"tickscope {VERSION}\n"
    ask = "import sys, tickscope; print(tickscope.__file__, len(tickscope.open(sys.argv[1]).stages().fetchall()))"
    said = printed(installed / "venv/bin/python", "-c", ask, TREE / "python/notebooks/echo", env=paths).split()
    assert said[0].startswith(str(installed / "venv")) and int(said[1]) > 0


STATIC = DIST / f"tickscope-{VERSION}-{MACHINE}-unknown-linux-musl"


@pytest.mark.skipif(not STATIC.exists(), reason="make dist left the static command out, and said why")
@pytest.mark.skipif(os.getuid() != 0, reason="a folder becomes the root of a file system by root alone")
def test_the_static_command_measures_and_shows_where_there_is_no_other_file(tmp_path):
    assert "NEEDED" not in printed("readelf", "--dynamic", "--program-headers", "--wide", STATIC)
    assert "INTERP" not in printed("readelf", "--program-headers", "--wide", STATIC)
    shutil.copy(STATIC, tmp_path / "tickscope")
    shutil.copytree(TREE / "python/notebooks/echo", tmp_path / "echo")
    for folder in ("proc", "dev/shm", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    mounts = f"mount -t proc proc {tmp_path}/proc && mount -t tmpfs tmpfs {tmp_path}/dev/shm"
    within = f"{mounts} && exec chroot {tmp_path} /tickscope "

    def said(words):
        return printed("unshare", "--mount", "--pid", "--fork", "sh", "-c", within + words)

    assert said("--version") == f"tickscope {VERSION}\n"
    with pytest.raises(subprocess.CalledProcessError) as run:  # a command that stamps nothing
        said("run --out /run -- /tickscope --version")
    assert run.value.returncode == 1 and "no stamp is stored in it" in run.value.stderr
    with pytest.raises(subprocess.CalledProcessError) as check:
        said("check /run --json")
    assert json.loads(check.value.stdout)["state"] == "ended"
    shown = json.loads(said("show /echo --json"))
    assert shown["stages"] and all(stage["count"] > 0 for stage in shown["stages"])


def test_the_crates_hold_all_that_the_command_is_built_of():
    crates = {path.name.removesuffix(f"-{VERSION}.crate") for path in (DIST / "crates").iterdir()}
    locked = tomllib.loads((TREE / "Cargo.lock").read_text())["package"]
    needs = {of["name"]: {name.split()[0] for name in of.get("dependencies", ())} for of in locked}
    wanted, todo = set(), ["tickscope-cli"]
    while todo:
        name = todo.pop()
        if name.startswith("tickscope-") and name not in wanted:
            wanted.add(name)
            todo.extend(needs[name])
    assert wanted <= crates
    for name in wanted:
        with tarfile.open(DIST / "crates" / f"{name}-{VERSION}.crate") as crate:
            manifest = tomllib.loads(crate.extractfile(f"{name}-{VERSION}/Cargo.toml").read().decode())
        own = {of: how for of, how in manifest.get("dependencies", {}).items() if of.startswith("tickscope-")}
        assert all(how["version"] == VERSION and "path" not in how for how in own.values()), name


def test_maven_takes_the_jar_from_the_repository(tmp_path):
    (tmp_path / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>a</groupId>'
        "<artifactId>user</artifactId><version>1</version>"
        f"<repositories><repository><id>dist</id><url>{(DIST / 'maven').as_uri()}</url></repository></repositories>"
        "<dependencies><dependency><groupId>dev.tickscope</groupId><artifactId>tickscope</artifactId>"
        f"<version>{VERSION}</version></dependency></dependencies></project>"
    )
    # What Maven has of others, and nothing that it took from here before.
    (tmp_path / "repository").mkdir()
    for group in (pathlib.Path.home() / ".m2/repository").glob("*"):
        if group.name != "dev":
            (tmp_path / "repository" / group.name).symlink_to(group)
    fetch = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
    where = (f"-Dmaven.repo.local={tmp_path / 'repository'}", f"-DoutputDirectory={tmp_path / 'jars'}")
    printed("mvn", "-q", "-B", "-f", tmp_path / "pom.xml", *where, fetch)
    jar = DIST / f"maven/dev/tickscope/tickscope/{VERSION}/tickscope-{VERSION}.jar"
    assert (tmp_path / f"jars/tickscope-{VERSION}.jar").read_bytes() == jar.read_bytes()
