"""A run in object storage: what of it is brought here, and what is read where it is needed.

Idea: `digests.json`, which a run gets at its end, names every file with its size and digest, so nothing is listed, and
what was never uploaded, cut short or changed shows. The core judges the copy as it judges any run. Assumes: an address
that pyarrow reads, such as `s3://BUCKET/RUN`, the options of its filesystem after `?`. Guarantees: a file that storage
does not have is missing in the copy, by name; what fails is tried `_TRIES` times, and is then an error with its
address. Deliberately absent: which files are sent, `uploads`.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import json
import math
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import quote, urlsplit

import pyarrow
from pyarrow import fs

from tickscope import _tickscope

T = TypeVar("T")
MANIFEST, DIGESTS = "run.json", "digests.json"
TABLES = {"stamps", "removed", "channels", "counts", "events", "brackets", "noise", "returns", "rivals", "traces"}
"""Folders that figures are made of, and so what is brought here."""
WHOLE_BYTES = 64 << 20
"""A run of at most so many bytes is brought here whole: the core then reads every byte, as of any run so small."""
_FOOTER_BYTES = 1 << 16
"""Most footers are shorter."""
_PIECE_BYTES = 8 << 20
"""Of a file that is passed on, so much is in memory."""
_MOST_BYTES = 256 << 20
"""Bytes of a file that is read into memory: what the core takes of a list of digests."""
_AT_ONCE = 8
_TRIES = 4
"""How often something is tried that storage refuses, or breaks off, beyond what its filesystem tries by itself."""
_WITHIN_S = 10
"""Nothing is tried again after so long."""
_FIRST_PAUSE_S = 0.2
"""The pause after the first failure; each is twice the one before."""


def is_address(run: object) -> bool:
    """True of an address in storage, false of a path."""
    return isinstance(run, str) and "://" in run


def shown(address: str) -> str:
    """An address without what only its filesystem needs: options, and keys."""
    scheme, _, place = address.partition("?")[0].partition("://")
    first, _, rest = place.partition("/")
    # A secret may have slashes.
    shown = place.rpartition("@")[2] if ":" in first else f"{first.rpartition('@')[2]}/{rest}"
    return f"{scheme}://{shown}".rstrip("/")


Content = tuple[int, str]
"""Bytes of a file, and their digest."""


@dataclass(frozen=True)
class Stored:
    """A file of a run, as `digests.json` has it."""

    path: str
    bytes: int
    digest: str

    @property
    def content(self) -> Content:
        return self.bytes, self.digest

    @property
    def is_of_a_table(self) -> bool:
        return PurePosixPath(self.path).parts[0] in TABLES

    @property
    def is_of_traces(self) -> bool:
        return self.path.startswith("traces/")

    def expect(self, found: Content | None, at: Storage, remedy: str) -> None:
        """Refuses another content, or none."""
        if found != self.content:
            raise _tickscope.TickscopeError(self.otherwise(found, at, remedy))

    def otherwise(self, found: Content | None, at: Storage, remedy: str) -> str:
        """Words for another content, or none."""
        has = "none" if found is None else f"{found[0]} bytes with digest {found[1]}"
        place = f"{shown(at.address)}/{self.path}"
        return f"expected {place} of {self.bytes} bytes with digest {self.digest}, found {has}. {remedy}"


class Copy:
    """A folder with a run's files, gone with this object; `stamps=False`: of the stamps of programs, the footers alone
    where the run is larger than `WHOLE_BYTES`."""

    def __init__(self, address: str, stamps: bool) -> None:
        self.address = address
        self._storage = Storage(address)
        folder = tempfile.mkdtemp(prefix="tickscope-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.root = Path(folder) / PurePosixPath(self._storage.place).name
        self.root.mkdir()
        manifest, digests = self._storage.manifests()
        (self.root / MANIFEST).write_bytes(manifest)
        (self.root / DIGESTS).write_bytes(digests)
        self.files = {file.path: file for file in entries(digests, address)}
        self.changed: dict[str, str] = {}
        """Files with another content than `digests.json` says, and that."""
        self.is_whole = stamps or sum(file.bytes for file in self.files.values()) <= WHOLE_BYTES
        self._bring()

    def stored(self, file: Path) -> Stored:
        """What `digests.json` has of a file of the folder."""
        path = str(file.relative_to(self.root))
        if path not in self.files:
            raise _tickscope.TickscopeError(
                f"expected {path} in {DIGESTS} of {shown(self.address)}, found none. Restore it"
            )
        return self.files[path]

    def named(self, text: str) -> str:
        """A sentence about the folder as one about the address."""
        return text.replace(str(self.root), shown(self.address))

    def _bring(self) -> None:
        at_once(self._bring_one, [file for file in self.files.values() if file.is_of_a_table])

    def _bring_one(self, file: Stored) -> None:
        target = self.root / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not self.is_whole and _is_of_programs(file.path):
            self._storage.take_footer(file.path, target, file.bytes)
            return
        found = self._storage.take(file.path, target, file.bytes)
        if found not in (None, file.content):
            self.changed[file.path] = file.otherwise(found, self._storage, "Upload it again")


class Storage:
    """Files below an address."""

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            self._files, place = fs.FileSystem.from_uri(address)
        except (OSError, pyarrow.ArrowException) as why:
            found = "it has keys, and cannot be read. Leave them to the environment" if "@" in address else str(why)
            raise _tickscope.TickscopeError(
                f"expected an address such as s3://BUCKET/RUN, found {shown(address)}: {found}. Name a run there"
            ) from None
        self.place = place.rstrip("/")

    def manifests(self) -> tuple[bytes, bytes]:
        """`run.json` and `digests.json` of a run that lies here wholly."""
        manifest, digests = (self.text(name) for name in (MANIFEST, DIGESTS))
        place = shown(self.address)
        if manifest is None:
            raise _tickscope.TickscopeError(f"expected {MANIFEST} in {place}, found none. Name a run's folder")
        if digests is None:
            raise _tickscope.TickscopeError(
                f"expected a run that has come to its end, found no {DIGESTS} in {place}: it goes on, was "
                "cut off, is of schema 1, or is not uploaded wholly. tickscope finish ends one that was cut off; "
                f"{DIGESTS} is uploaded last"
            )
        return manifest, digests

    def text(self, path: str) -> bytes | None:
        """A whole file, not above `_MOST_BYTES`; `None`: there is none."""
        found = self._opened(path, lambda file: bytes(file.read(_MOST_BYTES + 1)))
        if found is not None and len(found) > _MOST_BYTES:
            place = f"{shown(self.address)}/{path}"
            raise _tickscope.TickscopeError(f"expected {place} of {_MOST_BYTES} bytes at most, found more. Restore it")
        return found

    def content(self, path: str) -> Content | None:
        """What a file has; `None`: there is none."""
        return self._opened(path, lambda file: _passed_on(file, lambda piece: None))

    def md5(self, path: str) -> str | None:
        """MD5 of a file; `None`: there is none."""
        md5 = partial(hashlib.md5, usedforsecurity=False)
        return self._opened(path, lambda file: hashlib.file_digest(file, md5).hexdigest())

    def take(self, path: str, target: Path, most: int) -> Content | None:
        """Copies a file, if it is there, up to the first piece beyond `most` bytes; returns what it copied."""

        def copy(file: pyarrow.NativeFile) -> Content:
            with target.open("wb") as out:
                return _passed_on(file, out.write, most)

        return self._opened(path, copy)

    def take_footer(self, path: str, target: Path, expected: int) -> None:
        """Copies a Parquet file's footer to its place in a file of the same size, which has nothing else; of a file of
        another size than expected only the size."""

        def copy(file: pyarrow.NativeFile) -> None:
            size = file.size()
            if size != expected:
                with target.open("wb") as out:
                    out.truncate(size)
                return
            end = _last(file, size, _FOOTER_BYTES)
            length = int.from_bytes(end[-8:-4], "little") + 8
            end = end if length <= len(end) else _last(file, size, length)
            with target.open("wb") as out:
                out.truncate(size)
                out.seek(size - len(end))
                out.write(end)

        self._opened(path, copy)

    def put(self, path: str, content: bytes) -> None:
        """Writes a file."""
        self._written(path, lambda out: out.write(content))

    def put_from(self, source: Storage, file: Stored) -> None:
        """Copies a file from elsewhere, whose content is the one that `digests.json` has."""

        remedy = "Restore it from a copy"

        def copy(out: pyarrow.NativeFile) -> None:
            with source._files.open_input_file(f"{source.place}/{file.path}") as opened:
                file.expect(_passed_on(opened, out.write), source, remedy)

        file.expect(source.content(file.path), source, remedy)
        self._written(file.path, copy)

    def lacking(self, files: list[Stored], md5: Callable[[Stored], str | None]) -> list[Stored]:
        """Those of the files that are not there, or have another content: one of that size is taken to be the same
        where storage names `md5` of it (`ETag`), and is read back where it does not."""

        def lacks(file: Stored, there: fs.FileInfo) -> bool:
            if there.size != file.bytes:
                return True
            etag = self._opened(file.path, _etag)
            if etag is not None and etag == md5(file):
                return False
            return self.content(file.path) != file.content

        try:
            found = _patiently(lambda: self._files.get_file_info([f"{self.place}/{file.path}" for file in files]))
        except OSError as why:
            raise self._failed("", why) from None
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [file for file, lacking in zip(files, pool.map(lacks, files, found), strict=True) if lacking]

    def runs(self, pattern: str) -> list[str]:
        """Names of the folders here that match, and hold a run."""
        try:
            listed = _patiently(lambda: self._files.get_file_info(fs.FileSelector(self.place)))
            names = sorted(name for info in listed if fnmatch.fnmatchcase(name := info.base_name, pattern))
            places = [f"{self.place}/{name}/{MANIFEST}" for name in names]
            manifests = _patiently(lambda: self._files.get_file_info(places))
        except OSError as why:
            raise self._failed("", why) from None
        found = [name for name, info in zip(names, manifests, strict=True) if info.type == fs.FileType.File]
        if isinstance(self._files, fs.LocalFileSystem):
            # A link and what it points to count once, by its own name.
            found.sort(key=lambda name: not Path(self.place, name).is_symlink())
            found = sorted({Path(self.place, name).resolve(): name for name in found}.values())
        return found

    def _written(self, path: str, fill: Callable[[pyarrow.NativeFile], object]) -> None:
        """Writes a whole file, with the folders above it where storage has folders. In those of this machine it has its
        name once it is whole, as in S3."""
        place = f"{self.place}/{path}"
        folder, _, name = place.rpartition("/")
        is_here = isinstance(self._files, fs.LocalFileSystem)
        target = f"{folder}/.{name}.part" if is_here else place

        def write() -> None:
            if is_here:
                self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(target) as out:
                fill(out)
            if is_here:
                self._files.move(target, place)

        try:
            _patiently(write)
        except OSError as why:
            where = f"{shown(self.address)}/{path}"
            raise _tickscope.TickscopeError(f"cannot write {where}: {why}; try again, what is there stays") from None

    def _opened(self, path: str, use: Callable[[pyarrow.NativeFile], T]) -> T | None:
        def read() -> T:
            place = f"{self.place}/{path}"
            # A pipe would be waited for, and a device has no end.
            if isinstance(self._files, fs.LocalFileSystem) and Path(place).exists() and not Path(place).is_file():
                raise _tickscope.TickscopeError(
                    f"expected an ordinary file at {shown(self.address)}/{path}, found none. Restore it"
                )
            with self._files.open_input_file(f"{self.place}/{path}") as file:
                return use(file)

        try:
            return _patiently(read)
        except FileNotFoundError:
            return None
        except OSError as why:
            raise self._failed(path, why) from None

    def _failed(self, path: str, why: OSError) -> _tickscope.TickscopeError:
        where = f"{shown(self.address)}/{path}".rstrip("/")
        if why.errno == errno.ENOSPC:
            return _tickscope.TickscopeError(f"cannot copy {where}: {why}; make room, or set TMPDIR to a larger disk")
        return _tickscope.TickscopeError(f"cannot read {where}: {why}; open the run again once storage answers")


def expanded(run: str) -> list[str]:
    """The addresses of the runs that an address with `*` in its last part names."""
    parts = urlsplit(run)
    parent, _, pattern = parts.path.rstrip("/").rpartition("/")
    if "*" not in pattern:
        return [run]
    names = Storage(parts._replace(path=parent).geturl()).runs(pattern)
    return [parts._replace(path=f"{parent}/{quote(name)}").geturl() for name in names]


def at_once(act: Callable[[Stored], object], files: list[Stored]) -> None:
    """Does something with each of the files, some at a time; the first failure ends it."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(act, files):
            pass


def _patiently(attempt: Callable[[], T]) -> T:
    """What an attempt returns, which is made again from its beginning where storage fails; not where it says that there
    is no such file, or that nobody with these keys may."""
    pause, until = _FIRST_PAUSE_S, time.monotonic() + _WITHIN_S
    for _ in range(_TRIES - 1):
        try:
            return attempt()
        except (FileNotFoundError, PermissionError):
            raise
        except OSError as why:
            if "ACCESS_DENIED" in str(why) or time.monotonic() > until:
                raise
            time.sleep(pause)
            pause *= 2
    return attempt()


def _etag(file: pyarrow.NativeFile) -> str | None:
    """The name that S3 gives a file's content: its MD5 where it was put at once, and not encrypted by a user's key."""
    try:
        return str(file.metadata().get(b"ETag", b"").decode().strip('"'))
    except (OSError, AttributeError, TypeError, ValueError):
        return None


def _passed_on(file: pyarrow.NativeFile, write: Callable[[bytes], object], most: float = math.inf) -> Content:
    """Has a file written elsewhere, in pieces, up to the first beyond `most` bytes; returns what was written."""
    size, digest = 0, _tickscope.Digest()
    while size <= most and (piece := file.read(_PIECE_BYTES)):
        digest.update(piece)
        write(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _last(file: pyarrow.NativeFile, size: int, length: int) -> bytes:
    file.seek(max(0, size - length))
    return bytes(file.read())


def _is_of_programs(path: str) -> bool:
    """True of segments but those of points that tickscope itself stamps."""
    table, *folders = PurePosixPath(path).parts
    return table == "stamps" and len(folders) == 3 and not _tickscope.is_own_point(folders[1].removeprefix("point="))


def entries(digests: bytes, address: str) -> list[Stored]:
    """The files that a `digests.json` names."""
    try:
        listed = json.loads(digests)["files"]
        files = [Stored(str(file["path"]), int(file["bytes"]), str(file["xxh3_128"])) for file in listed]
    except (ValueError, KeyError, TypeError) as why:
        raise _tickscope.TickscopeError(
            f"expected a list of files in {DIGESTS} of {shown(address)}, found {type(why).__name__} {why}. Restore it"
        ) from None
    for file in files:
        parts = PurePosixPath(file.path).parts
        if not parts or file.path.startswith("/") or ".." in parts or "\0" in file.path:
            raise _tickscope.TickscopeError(
                f"expected paths within the run in {DIGESTS} of {shown(address)}, found {file.path!r}. Restore it"
            )
    return files
