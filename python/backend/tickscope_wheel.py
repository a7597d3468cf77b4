"""Makes the wheel: maturin's, with the tickscope command, its man page and its completions beside the extension.

The command is the binary itself and no script around the extension: it starts itself again for collectors and probes, and a
Python interpreter in those would disturb what is measured. TICKSCOPE_PROFILE names another cargo profile than release.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "build" / "tickscope.data"
COMPLETIONS = {
    "bash": "share/bash-completion/completions/tickscope",
    "zsh": "share/zsh/site-functions/_tickscope",
    "fish": "share/fish/vendor_completions.d/tickscope.fish",
}
Settings = dict[str, Any] | None

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """The hook of PEP 517."""
    DATA.mkdir(parents=True, exist_ok=True)  # maturin looks for it already
    name: str = maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """The hook of PEP 517."""
    DATA.mkdir(parents=True, exist_ok=True)
    name: str = maturin.build_sdist(sdist_directory, config_settings)
    return name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """The hook of PEP 517."""
    profile = os.environ.get("TICKSCOPE_PROFILE", "release")
    lay_out_data(build_command(profile))
    settings = {"build-args": f"--profile {profile}"} | (config_settings or {})
    name: str = maturin.build_wheel(wheel_directory, settings, metadata_directory)
    return name


def build_command(profile: str) -> Path:
    """Builds the command; returns where it lies.

    For users of that package alone. For developers as a part of the workspace with what its tests ask of other people's
    crates, which an example stands for: so the tests build none of them again.
    """
    shared = ["--workspace", "--example", "conformance_steps"]
    which = ["--package", "tickscope-cli"] if profile == "release" else shared
    build = ["cargo", "build", "--locked", *which, "--bin", "tickscope", "--profile", profile]
    messages = subprocess.run(
        [*build, "--message-format", "json-render-diagnostics"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    built = [json.loads(line) for line in messages.stdout.splitlines()]
    return Path(next(of["executable"] for of in built if of.get("executable") and of["target"]["name"] == "tickscope"))


def lay_out_data(command: Path) -> None:
    """What pip puts into the environment's bin/ and share/."""
    shutil.rmtree(DATA, ignore_errors=True)
    scripts, shared = DATA / "scripts", DATA / "data"
    scripts.mkdir(parents=True)
    subprocess.run(["strip", "-o", scripts / "tickscope", command], check=True)
    for shell, name in COMPLETIONS.items():
        write_output(shared / name, [command, "completions", shell])
    write_output(shared / "share/man/man1/tickscope.1", [command, "man"])


def write_output(place: Path, command: list[Path | str]) -> None:
    """Runs a command; what it prints becomes the file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
