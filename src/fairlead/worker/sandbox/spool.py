"""Long attachments of a document: on disk until they are saved, as an archive may be huge."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.errors import DiskFull, TemporarilyUnavailable
from fairlead.model.blobs import HEAD_BYTES

CHUNK_BYTES = 1 << 20


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (DiskFull if is_full else TemporarilyUnavailable)(
            f"the attachments of a document cannot be written to disk ({error.strerror}); "
            "free some space"
        ) from error


class UnnamedFile:
    """A file without a name; it ends with the last object that refers to it, or the process."""

    def __init__(self, folder: Path | None) -> None:
        self.descriptor = -1
        with _disk_errors(), tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            self.descriptor = os.dup(file.fileno())

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class SpooledBytes:
    """A range of bytes in a file that are written piece by piece."""

    def __init__(self, file: UnnamedFile, size: int) -> None:
        self.head = b""
        self._file = file
        self._size = size
        self._start = os.fstat(file.descriptor).st_size
        self._written = 0
        self._hash = hashlib.sha256()

    def __len__(self) -> int:
        return self._size

    @property
    def missing(self) -> int:
        """How many bytes have not arrived yet."""
        return self._size - self._written

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def add(self, chunk: bytes | bytearray) -> None:
        """Write the next bytes; raises TemporarilyUnavailable."""
        self.head += chunk[: max(0, HEAD_BYTES - len(self.head))]
        self._hash.update(chunk)
        rest = memoryview(chunk)
        with _disk_errors():
            while rest:
                written = os.pwrite(self._file.descriptor, rest, self._start + self._written)
                self._written += written
                rest = rest[written:]

    def chunks(self) -> Iterator[bytes]:
        for done in range(0, self._size, CHUNK_BYTES):
            size = min(CHUNK_BYTES, self._size - done)
            yield os.pread(self._file.descriptor, size, self._start + done)


class Spool:
    """The file in this folder for the long attachments of one document; made when needed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file: UnnamedFile | None = None

    def begin(self, size: int) -> SpooledBytes:
        """A range for so many bytes, behind the complete ones."""
        if self._file is None:
            self._file = UnnamedFile(self._folder)
        return SpooledBytes(self._file, size)
