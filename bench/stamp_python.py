"""What a stamp costs a Python program, beside the interpreter's own clock and its emptiest call: one JSON line.

A round times every variant once, in random order, each in a block of calls; nanoseconds a call. The loop around them, timed in the
same round, is taken off. Needs TICKSCOPE_DIR, and a pool that holds what a round stamps.
"""

import json
import random
import sys
import time

import tickscope

BLOCK = 2_000


def block(call):
    started = time.perf_counter_ns()
    for id in range(BLOCK):
        call(id)
    return (time.perf_counter_ns() - started) / BLOCK


def nothing(_started=time.perf_counter_ns):
    started = _started()
    for _ in range(BLOCK):
        pass
    return (_started() - started) / BLOCK


def clock():
    started = time.perf_counter_ns()
    read = time.perf_counter_ns
    for _ in range(BLOCK):
        read()
    return (time.perf_counter_ns() - started) / BLOCK


def with_value(stamp_with):
    started = time.perf_counter_ns()
    for id in range(BLOCK):
        stamp_with(id, 1, 2)
    return (time.perf_counter_ns() - started) / BLOCK


def main(rounds):
    plain, before = tickscope.point("plain"), tickscope.point("before", "before")
    wide = tickscope.point("wide", wide=True)
    variants = {
        "loop": nothing,
        "abs(id)": lambda: block(abs),
        "perf_counter_ns()": clock,
        "stamp(id)": lambda stamp=plain.stamp: block(stamp),
        "point(id)": lambda: block(plain),
        "before stamp(id)": lambda stamp=before.stamp: block(stamp),
        "stamp_with(id, kind, value)": lambda stamp=wide.stamp_with: with_value(stamp),
    }
    blocks = {name: [] for name in variants}
    for _ in range(rounds):
        for name in random.sample(list(variants), len(variants)):
            blocks[name].append(variants[name]())
    print(json.dumps(blocks))


main(int(sys.argv[1]))
