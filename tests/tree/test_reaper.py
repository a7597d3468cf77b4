"""What a program of tests leaves going is named and ended, and its exit code is what it was."""

import os
import pathlib
import re
import signal
import subprocess
import sys

REAPER = pathlib.Path(__file__).resolve().parents[1] / "reaper.py"
# A process in a session of its own whose parent ends at once, as what `--detach` starts; it does not end when told to.
DETACHED = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    os.close(1)
    os.close(2)
    time.sleep(600)
"""


def reaped(code):
    return [sys.executable, REAPER, sys.executable, "-c", code]


def is_going(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_is_left_going_is_named_and_ended_and_the_exit_code_is_the_programs():
    ended = subprocess.run(reaped(DETACHED + "else:\n    sys.exit(3)"), capture_output=True, text=True)
    left = int(ended.stdout)
    assert ended.returncode == 3
    assert f"left going by the tests, and ended: {left} " in ended.stderr
    assert not is_going(left)


def test_all_is_ended_when_the_reaper_is_told_to_end():
    process = subprocess.Popen(
        reaped(DETACHED + "time.sleep(600)"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    left = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    _, named = process.communicate()
    assert process.returncode == 143 and f"ended: {left} " in named
    assert not is_going(left)


def test_a_program_that_was_killed_and_one_that_leaves_nothing_end_as_they_did():
    killed = subprocess.run(reaped("import os; os.kill(os.getpid(), 9)"), capture_output=True, text=True)
    assert killed.returncode == 137 and "left going" not in killed.stderr
    done = subprocess.run(reaped("import subprocess; subprocess.Popen(['true'])"), capture_output=True, text=True)
    assert done.returncode == 0 and re.fullmatch(r"processor seconds: \d+\.\d\n", done.stderr)
