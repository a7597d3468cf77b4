"""Runs a program of tests, and ends all that is left of it once it has ended.

    tests/reaper.py COMMAND...

A test that fails may leave a whole run going, in sessions of its own: two processors' worth of load for every test
after it. Whoever loses its parent becomes a child of this process (PR_SET_CHILD_SUBREAPER) instead of init's, so that
nothing of it is lost from sight. What is left is named on standard error, and ended; so is what all of it took of the
processors. The exit code is the program's; on SIGTERM all of it is ended, and the code is 143.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
# Seconds that what is left is given to end after SIGTERM, and before it, where it is about to end anyway.
GRACE_S = 2
PAUSE_S = 0.02
TOLD_TO_END = 143


def main(command):
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TOLD_TO_END))
    code = TOLD_TO_END
    try:
        code = code_of(os.spawnvp(os.P_NOWAIT, command[0], command))
    finally:
        # Not to be interrupted: who is told twice ends all of it once.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_all()
        took = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"processor seconds: {took.ru_utime + took.ru_stime:.1f}", file=sys.stderr)
    return code


def code_of(program):
    """The program's exit code, or 128 and the signal that killed it; its orphans are reaped meanwhile."""
    while True:
        pid, status = os.wait()
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def end_all():
    """Ends what is left: those that do not end by themselves, first by SIGTERM, then by SIGKILL."""
    if not left_after(GRACE_S if sys.exc_info()[0] is None else 0):
        return
    for line in sorted(told(pid) for pid in descendants()):
        print(f"left going by the tests, and ended: {line}", file=sys.stderr)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in descendants():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        if not left_after(GRACE_S):
            return


def left_after(patience_s):
    """Whether anything is left after so long; ends at once when nothing is."""
    deadline = time.monotonic() + patience_s
    while has_children():
        if time.monotonic() >= deadline:
            return True
        time.sleep(PAUSE_S)
    return False


def has_children():
    """Whether any child is left; those that ended are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def descendants():
    """All processes below this one that have not ended, whatever their session."""
    below = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in "ZX":
            below.setdefault(int(parent), []).append(int(stat.parent.name))
    found, at = [], [os.getpid()]
    while at:
        children = below.get(at.pop(), [])
        found += children
        at += children
    return found


def told(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        words = "ended meanwhile"
    return f"{pid} {words[:160]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
