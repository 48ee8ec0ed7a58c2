"""A file that comes in pieces: a short one stays in memory until it is kept, as a whole."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore

from fairlead.files.words import our_words
from fairlead.ports import HEAD_BYTES, SHORT_BYTES, Stored

PIECE_BYTES = 1 << 20
"""How much of a long file waits in memory to be written, if there is room."""
ROOMS = 32
"""How many files may have that much in memory; others are written in pieces of a short one."""
SYNC_BYTES = 1 << 23
"""How much of a large file may wait in memory for the disk, so that it keeps nobody waiting."""


def opened_private(path: Path) -> int:
    """A descriptor of a new file that only this user may read."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def new_rooms() -> BoundedSemaphore:
    """Memory for files that come in at the same time."""
    return BoundedSemaphore(ROOMS)


class LocalIncoming:
    """A file on its way in. One thread at a time may use it."""

    def __init__(self, key: str, folder: Path, rooms: BoundedSemaphore) -> None:
        self.key = key
        self.size = 0
        self._folder = folder
        self._rooms = rooms
        self._has_room = False
        self._pieces: list[bytes] = []
        self._held = 0
        self._unsynced = 0
        self._digest = hashlib.sha256()
        self._head = b""
        self._descriptor: int | None = None
        self._is_file = False

    def add(self, chunk: bytes) -> bool:
        """Take some more bytes, without waiting; True: call `flush` before there are more."""
        self._pieces.append(chunk)
        self._held += len(chunk)
        self.size += len(chunk)
        if self._held <= SHORT_BYTES:
            return False
        self._has_room = self._has_room or self._rooms.acquire(blocking=False)
        return self._held >= PIECE_BYTES or not self._has_room

    def flush(self) -> None:
        """Write what has come; may wait for the disk. From then on it is a file, short or not."""
        content = b"".join(self._pieces)
        self._pieces, self._held = [], 0
        if len(self._head) < HEAD_BYTES:
            self._head += content[: HEAD_BYTES - len(self._head)]
        self._digest.update(content)
        try:
            with our_words(self._folder.parent):
                self._write(content)
        finally:
            self._leave_room()

    def short(self) -> Stored | None:
        """All that has come, for the store to keep; None: it is long, or was written already."""
        if self._is_file or self.size > SHORT_BYTES:
            return None
        content = b"".join(self._pieces)
        sha256 = hashlib.sha256(content).hexdigest()
        return Stored(self.key, self.size, sha256, content[:HEAD_BYTES], content)

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
        """Where it is written, should it be."""
        return self._folder / self.key

    def _opened(self) -> int:
        try:
            return opened_private(self._place)
        except FileNotFoundError:
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return opened_private(self._place)

    def stored(self) -> Stored:
        """What has come, all of it written; no more may come."""
        self._close()
        return Stored(self.key, self.size, self._digest.hexdigest(), self._head)

    def discard(self) -> None:
        """Leave nothing behind; may be called at any time and again."""
        self._pieces, self._held = [], 0
        self._leave_room()
        self._close()
        if self._is_file:
            with suppress(OSError):
                self._place.unlink(missing_ok=True)

    def _leave_room(self) -> None:
        if self._has_room:
            self._has_room = False
            self._rooms.release()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
