"""Takes the steps of a conformance program, a line each on stdin, by the package; ends with 64 at one it lacks."""

import os
import signal
import sys

import tickscope

channels = {}
for line in sys.stdin:
    match line.split():
        case ["open", at, point, ordering, fields] if fields != "full":
            channels[at] = tickscope.point(point, ordering, wide=fields == "wide")
        case ["stamp", at, id]:
            channels[at](int(id))
        case ["stamp_with", at, *numbers]:
            channels[at].stamp_with(*map(int, numbers))
        case ["keep_and_stamp", at, text]:
            channels[at](tickscope.keep_id(text))
        case ["stamp_text", at, text]:
            channels[at](tickscope.id_of(text))
        case ["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            sys.exit(64)
