"""Traces for a run in object storage that nobody joined, as one that its nodes put there themselves.

Idea: `digests.json` names no traces until it is put anew, last: so a join that was cut short leaves the run as it was.
Assumes: one process at a time writes the run; its traces have no more bytes than its segments. Guarantees: what is
joined was held against its digest; a disk without room is refused before anything is fetched, and what is fetched
already is not fetched again. Deliberately absent: a run without a layout, which whoever asks infers.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

from tickscope import _tickscope
from tickscope.run import Run
from tickscope.storage import DIGESTS, MANIFEST, Storage, Stored, at_once, entries, shown
from tickscope.uploads import send


def join(address: str, folder: str | Path | None = None) -> int:
    """Joins a run in storage, such as `s3://BUCKET/RUNS/NAME`, on this machine, and puts its traces there; returns how
    many files it sent, none where the run has traces.

    The run is copied into `folder`, or into one under `TMPDIR` that goes again. Called again with the same folder after
    a failure, it goes on.
    """
    storage = Storage(address)
    manifest, digests = storage.manifests()
    files = entries(digests, address)
    if any(file.is_of_traces for file in files):
        return 0
    with tempfile.TemporaryDirectory(prefix="tickscope-") as scratch:
        root = Path(scratch if folder is None else folder).resolve()
        _expect_own(root, manifest)
        root.mkdir(parents=True, exist_ok=True)
        here = Storage(root.as_uri())
        here.put(MANIFEST, manifest)
        here.put(DIGESTS, digests)
        _fetch(storage, [file for file in files if file.is_of_a_table], root)
        return _join(storage, root)


def _expect_own(root: Path, manifest: bytes) -> None:
    is_own = Storage(root.as_uri()).text(MANIFEST) == manifest and not (root / "stored").exists()
    # A disk that was full leaves parts.
    others = [place for place in root.iterdir() if place.suffix != ".part"] if root.exists() else []
    if others and not is_own:
        raise _tickscope.TickscopeError(
            f"expected an empty folder, or one that this run was joined in before, found other files in {root}. Name "
            "another folder"
        )


def _fetch(storage: Storage, files: list[Stored], root: Path) -> None:
    waiting = Storage(root.as_uri()).lacking(files, lambda file: None)
    fetched = sum(file.bytes for file in waiting)
    traces = sum(file.bytes for file in files if file.path.startswith("stamps/"))
    free = shutil.disk_usage(root).free
    if free < fetched + traces:
        raise _tickscope.TickscopeError(
            f"expected {fetched + traces} bytes free in {root}, {fetched} for what is fetched of "
            f"{shown(storage.address)} and {traces} for its traces, found {free}. Name a folder on a larger disk"
        )

    def take(file: Stored) -> None:
        target = root / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        file.expect(storage.take(file.path, target, file.bytes), storage, "Upload it again")

    at_once(take, waiting)


def _join(storage: Storage, root: Path) -> int:
    notes, here = Run(root).notes(), Storage(root.as_uri())
    _, digests = here.manifests()
    traces = [file for file in entries(digests, str(root)) if file.is_of_traces]
    if not traces:
        raise _tickscope.TickscopeError(
            f"expected a run whose traces are kept, by a layout in its run.json, found {shown(storage.address)}: "
            f"{'; '.join(notes)}. Open it without engine"
        )
    sent = send(traces, here, storage)
    storage.put(DIGESTS, digests)
    for note in notes:
        if not note.startswith("joined now from "):
            warnings.warn(note, stacklevel=3)
    return sent + 1
