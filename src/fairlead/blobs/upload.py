"""A file that comes in pieces: a short one stays in memory until it is kept, as a whole."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

from fairlead.blobs.os_errors import our_words
from fairlead.model.ports import HEAD_BYTES, SHORT_BYTES, Stored

PIECE_BYTES = 1 << 20
"""How much of a long file waits in memory to be written, if there is room."""
MEMORY_BYTES = 1 << 25
"""How much of all files may wait in memory; what is more is written as it comes."""
SYNC_BYTES = 1 << 23
"""How much of a large file may wait in memory for the disk, so that it keeps nobody waiting."""


def opened_private(path: Path) -> int:
    """A descriptor of a new file that only this user may read."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


class Memory:
    """What files that come in at the same time may hold, short ones too."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._left = MEMORY_BYTES

    def take(self, size: int) -> bool:
        """Hold so many bytes more; False: there is no room for them."""
        with self._lock:
            self._left -= size
            return self._left >= 0

    def give_back(self, size: int) -> None:
        """Hold them no longer."""
        with self._lock:
            self._left += size


class LocalIncoming:
    """A file on its way in. One thread at a time may use it."""

    def __init__(self, key: str, folder: Path, memory: Memory) -> None:
        self.key = key
        self.size = 0
        self._folder = folder
        self._memory = memory
        self._pieces: list[bytes] = []
        self._held = 0
        self._unsynced = 0
        self._digest = hashlib.sha256()
        self._head = b""
        self._descriptor: int | None = None
        self._is_file = False

    @property
    def is_short(self) -> bool:
        """Whether the store may keep it, as far as it has come."""
        return not self._is_file and self.size <= SHORT_BYTES

    def add(self, chunk: bytes) -> bool:
        """Take some more bytes, without waiting; True: call `flush` before there are more."""
        self._pieces.append(chunk)
        self._held += len(chunk)
        self.size += len(chunk)
        return not self._memory.take(len(chunk)) or self._held >= PIECE_BYTES

    def flush(self) -> None:
        """Write what has come; may wait for the disk. From then on it is a file, short or not."""
        content = b"".join(self._pieces)
        if len(self._head) < HEAD_BYTES:
            self._head += content[: HEAD_BYTES - len(self._head)]
        self._digest.update(content)
        try:
            with our_words(self._folder.parent):
                self._write(content)
        finally:
            self._let_go()

    def short(self) -> Stored | None:
        """All that has come, handed over once; None: it is long, or was written already."""
        if not self.is_short:
            return None
        content = b"".join(self._pieces)
        self._let_go()
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
        self._let_go()
        self._close()
        if self._is_file:
            with suppress(OSError):
                self._place.unlink(missing_ok=True)

    def _let_go(self) -> None:
        """Hold nothing in memory any more."""
        self._memory.give_back(self._held)
        self._pieces, self._held = [], 0

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
