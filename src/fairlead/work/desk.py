"""The desk of a child: the one folder besides the libraries' own whose files it can open.

The document at hand lies there under a second name, so nothing is copied and libraries get a path
like any other; a short one, which is no file, is written there. Of all the other documents the
child sees nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from fairlead.errors import DiskFull
from fairlead.work.liveness import is_known_dead

DOCUMENT = "document"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_OLD_SECONDS = 86_400
# Another disk, a file of another user, too many names, a file system without second names.
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}


class DeskGone(Exception):
    """Somebody removed the folder; the child could not open what is laid into a new one."""


class Desk:
    """A folder with room for one document."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._document = self.folder / DOCUMENT
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def lay(self, source: Path | bytes) -> None:
        """Put the document there: the file, or these bytes.

        Raises:
            DeskGone: there is no desk any more.
            DiskFull: there is no room for it.
            OSError: the document is gone.
        """
        try:
            if isinstance(source, bytes):
                self._write(source)
            else:
                self._link(source)
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise DeskGone from None
            raise
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise DiskFull(
                f"the disk of {self.folder} is full, so no document can be read; "
                "free some space, then try again"
            ) from error

    def _write(self, content: bytes) -> None:
        """Without a flush: after a crash nobody asks for it."""
        with os.fdopen(os.open(self._document, _NEW, 0o600), "wb", buffering=0) as file:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) :]

    def _link(self, path: Path) -> None:
        try:
            os.link(path, self._document)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            shutil.copyfile(path, self._document)

    def clear(self) -> None:
        """Take the document away."""
        self._document.unlink(missing_ok=True)

    def remove(self) -> None:
        """Take the desk itself away."""
        with suppress(OSError):
            self.clear()
            self.folder.rmdir()


def tidy(folder: Path) -> None:
    """Remove the desks of workers that are gone. A desk has the name of its worker."""
    if not folder.is_dir():
        return
    for desk in folder.iterdir():
        if is_known_dead(desk.name) or _is_old(desk):
            shutil.rmtree(desk, ignore_errors=True)


def _is_old(desk: Path) -> bool:
    """Whether no document was laid there for a day: its worker may have been on another boot."""
    with suppress(OSError):
        return desk.stat().st_mtime < time.time() - _OLD_SECONDS
    return False
