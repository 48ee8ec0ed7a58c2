"""The desk of a child: the one folder besides the libraries' own whose files it can open.

The document at hand lies there under a second name, so nothing is copied and libraries get a path
like any other; a short one, which is no file, is written there. Behind it may lie what the child is
to read next of the same customer. Of all the other documents it sees nothing.
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
# Another disk, a file of another user, too many names, a file system without second names.
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}


class JobDirGone(Exception):
    """Somebody removed the folder; the child could not open what is laid into a new one."""


class JobDir:
    """A folder with documents in the order in which they are to be read.

    Raises:
        DiskFull: there is no room for it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._numbers = count(1)
        self._laid: deque[int] = deque()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            if not _is_full(error):
                raise
            raise self._full() from error

    @property
    def first(self) -> int | None:
        """The number of the document that is to be read first."""
        return self._laid[0] if self._laid else None

    def lay(self, source: Path | bytes) -> int:
        """Put a document there, a file or these bytes; return the number that is its name.

        Raises:
            DeskGone: there is no desk any more.
            DiskFull: there is no room for it.
            OSError: the document is gone.
        """
        number = next(self._numbers)
        place = f"{self.folder}/{number}"
        try:
            _put(source, place)
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise JobDirGone from None
            raise
        except OSError as error:
            if not _is_full(error):
                raise
            self._take_away(number)
            raise self._full() from error
        self._laid.append(number)
        return number

    def clear(self) -> None:
        """Take the first document away."""
        if self._laid:
            self._take_away(self._laid.popleft())

    def clear_behind(self) -> None:
        """Take all away but the first; the child finds nothing where they were."""
        for number in list(self._laid)[1:]:
            self._take_away(number)

    def clear_all(self) -> None:
        """Take all documents away."""
        with suppress(OSError):
            while self._laid:
                self.clear()

    def remove(self) -> None:
        """Take the desk itself away."""
        self.clear_all()
        with suppress(OSError):
            self.folder.rmdir()

    def _full(self) -> DiskFull:
        return DiskFull(
            f"the disk of {self.folder} is full, so no document can be read; "
            "free some space, then try again"
        )

    def _take_away(self, number: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(f"{self.folder}/{number}")  # noqa: PTH108 (for each document: quicker)


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _put(source: Path | bytes, place: str) -> None:
    """A second name for a file, or bytes; without a flush: after a crash nobody asks for it."""
    if isinstance(source, bytes):
        with os.fdopen(os.open(place, _NEW, 0o600), "wb", buffering=0) as file:
            rest = memoryview(source)
            while rest:
                rest = rest[file.write(rest) :]
        return
    try:
        os.link(source, place)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        shutil.copyfile(source, place)


def tidy(folder: Path) -> None:
    """Remove the desks of workers that are gone. A desk has the name of its worker."""
    if not folder.is_dir():
        return
    for job_dir in folder.iterdir():
        if is_known_dead(job_dir.name) or _is_old(job_dir):
            shutil.rmtree(job_dir, ignore_errors=True)


def _is_old(job_dir: Path) -> bool:
    """Whether no document was laid there for a day: its worker may have been on another boot."""
    with suppress(OSError):
        return job_dir.stat().st_mtime < time.time() - _OLD_SECONDS
    return False
