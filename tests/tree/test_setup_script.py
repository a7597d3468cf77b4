"""scripts/setup.sh waits for whoever holds the package manager's lock, and passes on every other failure at once."""

import os
import pathlib
import re
import subprocess

SCRIPT = (pathlib.Path(__file__).resolve().parents[2] / "scripts/setup.sh").read_text()
WAITS = re.search(r"^apt_get\(\) \{.*?^\}", SCRIPT, re.M | re.S)[0]


def install(folder, apt_get):
    """Runs the script's `apt_get` with an apt-get that is `apt_get`, and time that does not pass."""
    for name, body in (("apt-get", apt_get), ("sleep", "")):
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {folder}/said\n{body}\n")
        (folder / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-euc", f"{WAITS}\napt_get install x"], env=environment, capture_output=True, text=True, check=False
    )
    return ended, (folder / "said").read_text().split()


def test_a_held_lock_is_waited_for(tmp_path):
    refused = "{ echo 'E: Could not get lock /var/lib/apt/lists/lock' >&2; exit 100; }"
    held = f"[ $(grep -c apt-get {tmp_path}/said) -ge 3 ] || {refused}"
    ended, said = install(tmp_path, held)
    assert ended.returncode == 0 and said == ["apt-get", "sleep", "apt-get", "sleep", "apt-get"]


def test_another_failure_is_passed_on_at_once(tmp_path):
    ended, said = install(tmp_path, "echo 'E: Unable to locate package x' >&2; exit 100")
    assert ended.returncode == 1 and "Unable to locate" in ended.stderr and said == ["apt-get"]
