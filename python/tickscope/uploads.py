"""A run's way into object storage: each file once, `digests.json` last.

Idea: `digests.json` names every file, so what is there already, by its content, is passed over, and an upload that was
cut short goes on where it stopped. Assumes: one upload at a time. Guarantees: each file is held against its digest
before it is sent; until the last one is there, nothing at the address is a run to a reader; what storage does not take
is an error with its address. Deliberately absent: a run that goes on.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tickscope import _tickscope
from tickscope.storage import DIGESTS, MANIFEST, Storage, Stored, entries, shown

_AT_ONCE = 4
"""Files in memory at a time."""


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
    waiting = storage.lacking(files, lambda file: _md5(here, file))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(lambda file: storage.put(file.path, _intact(here, file)), waiting):
            pass
    storage.put(DIGESTS, digests)
    return len(waiting) + 1 + (there != manifest)


def _md5(here: Storage, file: Stored) -> str | None:
    found = here.text(file.path)
    return None if found is None else hashlib.md5(found, usedforsecurity=False).hexdigest()


def _intact(here: Storage, file: Stored) -> bytes:
    """The bytes of a file, which are those that it had when the run ended."""
    found = here.text(file.path)
    digest = None if found is None else _tickscope.digest(found)
    if found is None or (len(found), digest) != (file.bytes, file.digest):
        has = "none" if found is None else f"{len(found)} bytes with digest {digest}"
        raise _tickscope.TickscopeError(
            f"expected {here.place}/{file.path} of {file.bytes} bytes with digest {file.digest}, found {has}. Restore "
            "it from a copy"
        )
    return found
