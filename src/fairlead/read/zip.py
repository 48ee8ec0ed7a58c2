"""The directory of a zip archive, read within limits and without any other library."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast

from fairlead.read.base import CannotRead, Source

ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
MAX_DIRECTORY_BYTES = 4_000_000
BAD_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, OSError)


class _DirectoryGuard(io.BufferedReader):
    """A file that refuses giant single reads: only a giant zip directory causes one."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise CannotRead("too-large", "The document is an archive with too many members.")
        return super().read(size)


@contextmanager
def open_zip(source: Source) -> Iterator[zipfile.ZipFile]:
    """The document as a zip archive.

    Raises:
        zipfile.BadZipFile: it is not an archive.
        CannotRead: its directory is too large to be loaded.
    """
    with source.open() as raw:
        guard = _DirectoryGuard(cast("io.RawIOBase", raw))
        with zipfile.ZipFile(guard) as archive:
            yield archive


def member_names(source: Source) -> frozenset[str]:
    """Return the names in a zip archive; empty if the file is not a readable one."""
    if "members" not in source.known:
        source.known["members"] = frozenset()
        if source.head.startswith(ZIP):
            with suppress(*BAD_ZIP), open_zip(source) as archive:
                source.known["members"] = frozenset(archive.namelist())
    return source.known["members"]
