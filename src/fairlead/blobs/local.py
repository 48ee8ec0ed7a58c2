"""Blobs in a local folder, written so that a crash leaves either all of a file or nothing.

A file is written under `incoming/`, fsynced and renamed to its place; then its folder is fsynced.
The place follows from the key, never from a name that a user chose. Keys begin with a time-sorted
id; files of about the same time share a folder, so files that arrive together share its fsync.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, get_ident

from fairlead.blobs.disk import Flusher, fsync_path, our_errors, translated
from fairlead.blobs.marker import MARKER, Marker, PlaceRecord
from fairlead.errors import DamagedData
from fairlead.model.blobs import ABSENT, HEAD_BYTES, SHORT_BYTES, IncomingBlob, StoredBlob

KEY = re.compile(r"[0-9a-z]{8,64}(\.[0-9a-z]{1,16}){0,2}")
PIECE_BYTES = 1 << 20
"""A long file is written in pieces of this size, if memory allows."""
MEMORY_BYTES = 1 << 25
"""How much of all files may wait in memory; beyond that, chunks are written as they arrive."""
SYNC_BYTES = 1 << 23
"""A large file is synced after so many bytes, so that its last fsync delays no other file."""
_FOLDER_LETTERS = 6  # of an id: a folder holds the files of about 17 minutes
_AT_ONCE = 8
_WORTH_A_POOL = 6
_WORTH_A_FLUSH = 3


def check_key(key: str) -> str:
    if not KEY.fullmatch(key):
        raise ValueError(f"not a key: {key!r}")
    return key


def open_private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


class Memory:
    """The memory that arriving blobs may use."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._left = MEMORY_BYTES

    def take(self, size: int) -> bool:
        with self._lock:
            self._left -= size
            return self._left >= 0

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class LocalIncomingBlob:
    """An arriving blob: in memory while it is short, else in a file. For one thread at a time."""

    def __init__(
        self, key: str, folder: Path, memory: Memory, check: Callable[[], None] = lambda: None
    ) -> None:
        self.key = key
        self.size = 0
        self._check_place = check
        self._folder = folder
        self._memory = memory
        self._chunks: list[bytes] = []
        self._in_memory = 0
        self._unsynced = 0
        self._digest = hashlib.sha256()
        self._head = b""
        self._descriptor: int | None = None
        self._is_file = False

    @property
    def is_short(self) -> bool:
        return not self._is_file and self.size <= SHORT_BYTES

    def add(self, chunk: bytes) -> bool:
        self._chunks.append(chunk)
        self._in_memory += len(chunk)
        self.size += len(chunk)
        return not self._memory.take(len(chunk)) or self._in_memory >= PIECE_BYTES

    def flush(self) -> None:
        content = b"".join(self._chunks)
        if len(self._head) < HEAD_BYTES:
            self._head += content[: HEAD_BYTES - len(self._head)]
        self._digest.update(content)
        try:
            with our_errors(self._folder.parent):
                self._write(content)
        finally:
            self._free_memory()

    def short(self) -> StoredBlob | None:
        if not self.is_short:
            return None
        content = b"".join(self._chunks)
        self._free_memory()
        sha256 = hashlib.sha256(content).hexdigest()
        return StoredBlob(self.key, self.size, sha256, content[:HEAD_BYTES], content)

    def _write(self, content: bytes) -> None:
        if self._descriptor is None:
            self._descriptor, self._is_file = self._opened(), True
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._unsynced += len(content)
        if self._unsynced >= SYNC_BYTES:
            os.fdatasync(self._descriptor)
            self._unsynced = 0

    @property
    def _place(self) -> Path:
        return self._folder / self.key

    def _opened(self) -> int:
        self._check_place()
        try:
            return open_private(self._place)
        except FileNotFoundError:
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return open_private(self._place)

    def stored(self) -> StoredBlob:
        self._close()
        return StoredBlob(self.key, self.size, self._digest.hexdigest(), self._head)

    def discard(self) -> None:
        self._free_memory()
        self._close()
        if self._is_file:
            with suppress(OSError):
                self._place.unlink(missing_ok=True)

    def _free_memory(self) -> None:
        self._memory.give_back(self._in_memory)
        self._chunks, self._in_memory = [], 0

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class LocalBlobs:
    """Blobs as files of a folder."""

    is_far = False

    def __init__(self, root: Path, record: PlaceRecord | None = None) -> None:
        self._root = root
        self._marker: Marker | None = None
        if record is not None:
            self._marker = Marker(str(root), record, self._read_marker, self._write_marker)
        self._incoming = root / "incoming"
        self._memory = Memory()
        self._synced: set[Path] = set()
        self._flusher = Flusher()

    def check(self) -> None:
        if self._marker is not None:
            self._marker.check()

    def _read_marker(self) -> str | None:
        try:
            return (self._root / MARKER).read_text("utf-8").strip()
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise translated(error, self._root) from error

    def _write_marker(self, installation: str) -> None:
        with our_errors(self._root):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A unique name: the first uploads to a new folder may run at the same time.
            new = self._root / f"{MARKER}.{os.getpid()}-{get_ident()}.new"
            with os.fdopen(open_private(new), "w") as file:
                file.write(installation + "\n")
                file.flush()
                os.fsync(file.fileno())
            new.rename(self._root / MARKER)
            fsync_folder(self._root)
            fsync_folder(self._root.parent)

    def put_all(self, contents: Sequence[tuple[str, bytes]]) -> None:
        if not contents:
            return
        self.check()
        keys = [key for key, _ in contents]
        with our_errors(self._root), self._removed_on_error([self.path(key) for key in keys]):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._incoming.mkdir(mode=0o700, exist_ok=True)
            for key, content in contents:
                # A key belongs to one attempt: a file that a crash left under it is overwritten.
                with os.fdopen(open_private(self._incoming / check_key(key)), "wb") as target:
                    target.write(content)
            self._make_durable(keys)

    def begin(self, key: str) -> LocalIncomingBlob:
        return LocalIncomingBlob(check_key(key), self._incoming, self._memory, self.check)

    def keep_each(
        self, groups: Sequence[Sequence[IncomingBlob]]
    ) -> list[list[StoredBlob] | Exception]:
        outcomes = [self._written(group) for group in groups]
        good = [blobs for blobs in outcomes if not isinstance(blobs, Exception)]
        try:
            with our_errors(self._root):
                self._make_durable([blob.key for blobs in good for blob in blobs])
        except Exception as error:  # none of them is durable
            outcomes = [error] * len(outcomes)
        for group, outcome in zip(groups, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._forget(group)
        return outcomes

    def _written(self, group: Sequence[IncomingBlob]) -> list[StoredBlob] | Exception:
        try:
            for blob in group:
                blob.flush()
            return [blob.stored() for blob in group if isinstance(blob, LocalIncomingBlob)]
        except Exception as error:  # for the caller to raise
            return error

    def _make_durable(self, keys: Sequence[str]) -> None:
        """Many files share one syncfs; few get one fsync each."""
        if len(keys) >= _WORTH_A_FLUSH and self._flusher.is_worth_it():
            self._move(keys)
            self._flusher.flush(self._root, len(keys))
            return
        self._fsync_each([self._incoming / check_key(key) for key in keys])
        folders = self._move(keys)
        for folder in folders:
            fsync_folder(folder)
        if not folders <= self._synced:  # the folders' own names, whichever process made them
            fsync_folder(self._root)
            fsync_folder(self._root.parent)
            self._synced = folders  # the next files go to the same folders or to newer ones

    def _fsync_each(self, paths: Sequence[Path]) -> None:
        if len(paths) < _WORTH_A_POOL:
            for path in paths:
                fsync_path(path)
            return
        # The disk merges fsyncs that run at the same time.
        with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as pool:
            list(pool.map(fsync_path, paths))

    def _forget(self, group: Sequence[IncomingBlob]) -> None:
        for blob in group:
            blob.discard()
            with suppress(OSError):
                self.path(blob.key).unlink(missing_ok=True)

    def path(self, key: str) -> Path:
        folder = check_key(key)[:_FOLDER_LETTERS]
        return Path(f"{self._root}/{folder}/{key}")  # faster than `/` twice

    def read(self, key: str, sha256: str) -> bytes:
        try:
            content = self.path(key).read_bytes()
        except OSError as error:
            if error.errno not in ABSENT:
                raise translated(error, self._root) from error
            self.check()
            raise DamagedData(
                f"the file {self.path(key)} is missing; restore it from a backup"
            ) from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise DamagedData(
                f"the file {self.path(key)} is damaged (its SHA-256 differs); "
                "restore it from a backup"
            )
        return content

    def delete(self, keys: Iterable[str]) -> None:
        with our_errors(self._root):
            for key in keys:
                self.path(key).unlink(missing_ok=True)

    def older_than(self, before: float) -> Iterator[list[str]]:
        self.check()  # another installation's files are no orphans of this one
        for folder in sorted(self._folders()):
            keys = [entry.name for entry in os.scandir(folder) if _is_old(entry, before)]
            keys = [key for key in keys if self._is_ours(folder / key)]
            if keys:
                yield keys

    def sweep_incoming(self, before: float) -> int:
        if not self._incoming.is_dir():
            return 0
        old = [entry for entry in os.scandir(self._incoming) if _is_old(entry, before)]
        for entry in old:
            Path(entry).unlink(missing_ok=True)
        return len(old)

    def _is_ours(self, path: Path) -> bool:
        """Whether the file is at the place of its key; other files are left alone."""
        return KEY.fullmatch(path.name) is not None and self.path(path.name) == path

    def _folders(self) -> Iterator[Path]:
        if self._root.is_dir():
            for entry in self._root.iterdir():
                if entry.is_dir() and entry != self._incoming:
                    yield entry

    def _move(self, keys: Sequence[str]) -> set[Path]:
        """Move files from `incoming/` to their places; return the folders."""
        places = [self.path(key) for key in keys]
        folders = {place.parent for place in places}
        for folder in folders:
            folder.mkdir(mode=0o700, exist_ok=True)
        for place in places:
            (self._incoming / place.name).rename(place)
        return folders

    @contextmanager
    def _removed_on_error(self, places: Sequence[Path]) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for place in places:
                with suppress(OSError):
                    (self._incoming / place.name).unlink(missing_ok=True)
                    place.unlink(missing_ok=True)
            raise


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable: without its name, a file is gone after a crash."""
    fsync_path(folder)


def _is_old(entry: os.DirEntry[str], before: float) -> bool:
    try:
        return entry.is_file(follow_symlinks=False) and entry.stat().st_mtime < before
    except FileNotFoundError:
        return False
