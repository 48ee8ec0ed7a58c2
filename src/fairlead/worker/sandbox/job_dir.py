"""The job directory: besides the files of libraries, a child can open only files in this folder.

A document is a hard link there, so nothing is copied and libraries get an ordinary path. A short
document, which has no blob, is written there. The folder may also have the next documents of the
same customer. The child sees no other documents.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections import deque
from contextlib import suppress
from itertools import count
from pathlib import Path

from fairlead.errors import DiskFull
from fairlead.worker.liveness import is_known_dead

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_OLD_SECONDS = 86_400
# Another disk, a file of another user, too many links, a file system without hard links.
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}


class JobDirGone(Exception):
    """The folder was removed; the child could not open files in a new one."""


class JobDir:
    """A folder with documents in the order in which they are to be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._numbers = count(1)
        self._documents: deque[int] = deque()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self._raise_if_full(error)
            raise

    @property
    def first(self) -> int | None:
        """The number of the document that is to be read first."""
        return self._documents[0] if self._documents else None

    def add(self, source: Path | bytes) -> int:
        """Add a file or bytes; return the number that is its name in the folder.

        Raises JobDirGone or DiskFull; or OSError if the document is gone.
        """
        number = next(self._numbers)
        try:
            _put(source, f"{self.folder}/{number}")
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise JobDirGone from None
            raise
        except OSError as error:
            self._delete(number)
            self._raise_if_full(error)
            raise
        self._documents.append(number)
        return number

    def remove_first(self) -> None:
        if self._documents:
            self._delete(self._documents.popleft())

    def remove_behind(self) -> None:
        """Remove the files of all documents but the first; the child will not find them."""
        for number in list(self._documents)[1:]:
            self._delete(number)

    def clear(self) -> None:
        with suppress(OSError):
            while self._documents:
                self.remove_first()

    def remove(self) -> None:
        self.clear()
        with suppress(OSError):
            self.folder.rmdir()

    def _raise_if_full(self, error: OSError) -> None:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"the disk of {self.folder} is full, so no document can be read; "
                "free some space, then try again"
            ) from error

    def _delete(self, number: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(f"{self.folder}/{number}")  # noqa: PTH108 (faster, and called for each document)


def _put(source: Path | bytes, path: str) -> None:
    """Link or write the document; without fsync, as it is not needed after a crash."""
    if isinstance(source, bytes):
        with os.fdopen(os.open(path, _NEW, 0o600), "wb", buffering=0) as file:
            rest = memoryview(source)
            while rest:
                rest = rest[file.write(rest) :]
        return
    try:
        os.link(source, path)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        shutil.copyfile(source, path)


def remove_old_job_dirs(folder: Path) -> None:
    """Remove the job directories of dead workers. A directory has the name of its worker.

    Those unused for a day are removed too: their workers may have belonged to another boot.
    """
    if not folder.is_dir():
        return
    for job_dir in folder.iterdir():
        with suppress(OSError):
            is_old = job_dir.stat().st_mtime < time.time() - _OLD_SECONDS
            if is_old or is_known_dead(job_dir.name):
                shutil.rmtree(job_dir, ignore_errors=True)
