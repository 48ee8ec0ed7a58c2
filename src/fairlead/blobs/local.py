"""Bytes in a local folder, written so that a crash leaves either all of a file or nothing.

A file is written under `incoming/`, fsynced, renamed to its place, and then the folder is
fsynced too. Its place is made from its key, never from a name that somebody chose. Keys begin
with a time-sorted id; files of about the same time share a folder, so files that arrive together
share the fsync of that folder.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from fairlead.blobs.flush import Flusher, fsync_path
from fairlead.blobs.os_errors import our_words
from fairlead.blobs.upload import LocalIncoming, Memory, opened_private
from fairlead.errors import DamagedData
from fairlead.model.ports import Incoming, Stored

KEY = re.compile(r"[0-9a-z]{8,64}(\.[0-9a-z]{1,16}){0,2}")
_FOLDER_LETTERS = 6  # of an id: files of about 17 minutes
_AT_ONCE = 8
_WORTH_A_POOL = 6
_WORTH_A_FLUSH = 3


def checked(key: str) -> str:
    """The key; refuses what is none."""
    if not KEY.fullmatch(key):
        raise ValueError(f"not a key: {key!r}")
    return key


class LocalFiles:
    """A folder of files by key. All methods may be called from any thread."""

    is_far = False

    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / "incoming"
        self._memory = Memory()
        self._synced: set[Path] = set()
        self._flusher = Flusher()

    def put_all(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Store bytes by their keys: all or, when one cannot be stored, none of them."""
        if not contents:
            return
        keys = [key for key, _ in contents]
        with our_words(self._root), self._removed_on_error([self.path(key) for key in keys]):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._incoming.mkdir(mode=0o700, exist_ok=True)
            for key, content in contents:
                self._write(key, content)
            self._make_safe(keys)

    def begin(self, key: str) -> LocalIncoming:
        """A new file, of which nothing has come yet."""
        return LocalIncoming(checked(key), self._incoming, self._memory)

    def keep_each(self, groups: Sequence[Sequence[Incoming]]) -> list[list[Stored] | Exception]:
        """Make files safe with few waits for the disk; each group is kept or refused as a whole."""
        outcomes = [self._written(group) for group in groups]
        good = [each for each in outcomes if not isinstance(each, Exception)]
        try:
            with our_words(self._root):
                self._make_safe([file.key for group in good for file in group])
        except Exception as error:  # nothing of it is safe
            outcomes = [error] * len(outcomes)
        for group, outcome in zip(groups, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._forget(group)
        return outcomes

    def _written(self, group: Sequence[Incoming]) -> list[Stored] | Exception:
        try:
            for each in group:
                each.flush()
            return [each.stored() for each in group if isinstance(each, LocalIncoming)]
        except Exception as error:  # for the caller to raise
            return error

    def _make_safe(self, keys: Sequence[str]) -> None:
        """Many small files share one flush of the file system; few are flushed one by one."""
        if len(keys) >= _WORTH_A_FLUSH and self._flusher.is_worth_it():
            self._move(keys)
            self._flusher.flush(self._root, len(keys))
            return
        self._flush_one_by_one([self._incoming / checked(key) for key in keys])
        self._publish(keys)

    def _flush_one_by_one(self, paths: Sequence[Path]) -> None:
        if len(paths) < _WORTH_A_POOL:
            for path in paths:
                fsync_path(path)
            return
        # The disk merges the flushes of files that are synced at the same time.
        with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as pool:
            list(pool.map(fsync_path, paths))

    def _forget(self, group: Sequence[Incoming]) -> None:
        for each in group:
            each.discard()
            with suppress(OSError):
                self.path(each.key).unlink(missing_ok=True)

    def path(self, key: str) -> Path:
        """Where the file of this key lies."""
        folder = checked(key)[:_FOLDER_LETTERS]
        return Path(f"{self._root}/{folder}/{key}")  # quicker than with two slashes

    def read(self, key: str, sha256: str) -> bytes:
        """The file's bytes, after a check of its SHA-256."""
        try:
            content = self.path(key).read_bytes()
        except FileNotFoundError:
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
        """Remove files; those that are not there stay so."""
        for key in keys:
            self.path(key).unlink(missing_ok=True)

    def older_than(self, moment: float) -> Iterator[list[str]]:
        """Keys of files last written before `moment`, folder by folder: candidates for a sweep."""
        for folder in sorted(self._folders()):
            keys = [entry.name for entry in os.scandir(folder) if _is_old(entry, moment)]
            keys = [key for key in keys if self._is_ours(folder / key)]
            if keys:
                yield keys

    def sweep_incoming(self, moment: float) -> int:
        """Remove half-written files that a crash left before `moment`; return how many."""
        if not self._incoming.is_dir():
            return 0
        left = [entry for entry in os.scandir(self._incoming) if _is_old(entry, moment)]
        for entry in left:
            Path(entry).unlink(missing_ok=True)
        return len(left)

    def _is_ours(self, path: Path) -> bool:
        """Whether the file lies where its key belongs; whatever else is there stays alone."""
        return KEY.fullmatch(path.name) is not None and self.path(path.name) == path

    def _folders(self) -> Iterator[Path]:
        if self._root.is_dir():
            for entry in self._root.iterdir():
                if entry.is_dir() and entry != self._incoming:
                    yield entry

    def _write(self, key: str, content: bytes) -> None:
        # What a crash left under this key is overwritten: a key stands for one try.
        with os.fdopen(opened_private(self._incoming / checked(key)), "wb") as target:
            target.write(content)

    def _publish(self, keys: Sequence[str]) -> None:
        folders = self._move(keys)
        for folder in folders:
            fsync_folder(folder)
        self._sync_names_of(folders)

    def _move(self, keys: Sequence[str]) -> set[Path]:
        """Give files their places; return the folders."""
        places = [self.path(key) for key in keys]
        folders = {place.parent for place in places}
        for folder in folders:
            folder.mkdir(mode=0o700, exist_ok=True)
        for place in places:
            (self._incoming / place.name).rename(place)
        return folders

    def _sync_names_of(self, folders: set[Path]) -> None:
        """Make the folders' own names safe, also of those that another process has just made."""
        if not folders <= self._synced:
            fsync_folder(self._root)
            fsync_folder(self._root.parent)
            self._synced = folders  # the next files go to the same ones or to newer ones

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
    """Make the names in a folder safe: a file is there after a crash only when its name is."""
    fsync_path(folder)


def _is_old(entry: os.DirEntry[str], moment: float) -> bool:
    try:
        return entry.is_file(follow_symlinks=False) and entry.stat().st_mtime < moment
    except FileNotFoundError:
        return False
