"""A run's way into object storage: each file once, `digests.json` last.

Idea: `digests.json` names every file, so what is there already, by its content, is passed over, and an upload that was
cut short goes on where it stopped. Assumes: one upload at a time. Guarantees: each file is held against its digest
before it is sent and while it is, and never in memory whole; until the last one is there, nothing at the address is a
run to a reader; what storage does not take is an error with its address. Deliberately absent: a run that goes on.
"""

from __future__ import annotations

from pathlib import Path

from tickscope import _tickscope
from tickscope.storage import DIGESTS, MANIFEST, Storage, Stored, at_once, entries, shown


def upload(run: str | Path, address: str) -> int:
    """Copies a run that has ended to an address such as `s3://BUCKET/RUNS/NAME`; returns how many files it sent.

    Called again after a failure, it sends what is not there yet.
    """
    root = Path(run).absolute()
    here, storage = Storage(root.as_uri()), Storage(address)
    why = _tickscope.Run(root).unfinished()
    manifest, digests = here.text(MANIFEST), here.text(DIGESTS)
    if why is not None or manifest is None or digests is None:
        raise _tickscope.TickscopeError(
            f"expected a run that has come to its end, found {root}: {why or f'it has no {DIGESTS}'}. tickscope finish "
            "ends one that was cut off"
        )
    if storage.text(DIGESTS) == digests:
        return 0
    there = storage.text(MANIFEST)
    if not manifest.startswith(there or b""):
        raise _tickscope.TickscopeError(
            f"expected nothing or this run at {shown(address)}, found another {MANIFEST}. Name another address"
        )
    if there != manifest:
        storage.put(MANIFEST, manifest)
    files = [file for file in entries(digests, str(root)) if file.path != MANIFEST]
    sent = send(files, here, storage)
    storage.put(DIGESTS, digests)
    return sent + 1 + (there != manifest)


def send(files: list[Stored], here: Storage, storage: Storage) -> int:
    """Copies those files that storage lacks; returns how many."""
    waiting = storage.lacking(files, lambda file: here.md5(file.path))
    at_once(lambda file: storage.put_from(here, file), waiting)
    return len(waiting)
