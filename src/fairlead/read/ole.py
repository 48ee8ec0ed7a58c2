"""The container of old Office and Outlook files, and what all of them have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import olefile

from fairlead.read.base import CannotRead, Task
from fairlead.read.decode import decode
from fairlead.read.draft import Draft
from fairlead.read.source import Source


class Ole:
    """Streams of a compound file, each read only within the limits."""

    def __init__(self, file: olefile.OleFileIO, limit: int) -> None:
        self._file = file
        self._limit = limit

    def has(self, *path: str) -> bool:
        """Whether there is such a stream."""
        return bool(self._file.exists(list(path)))

    def stream(self, *path: str) -> bytes:
        """The content of a stream; empty where there is none."""
        if not self.has(*path):
            return b""
        if self._file.get_size(list(path)) > self._limit:
            raise CannotRead("too-large", "The document has a part that is too large.")
        with self._file.openstream(list(path)) as stream:
            data: bytes = stream.read()
        return data

    def names(self) -> list[list[str]]:
        """The paths of all streams."""
        return [list(path) for path in self._file.listdir(streams=True, storages=False)]

    def add_properties(self, draft: Draft) -> None:
        """Record what the summary says; a broken one is no reason to fail."""
        try:
            found = self._file.get_metadata()
            encoding = f"cp{found.codepage}" if found.codepage and found.codepage > 0 else None
            draft.fact("title", _text(found.title, encoding))
            draft.fact("author", _text(found.author, encoding))
            if isinstance(found.create_time, datetime):
                draft.created(found.create_time)
        except Exception:
            # The library fails on malformed properties in many ways.
            draft.warn("the document's properties are damaged")


def _text(value: object, encoding: str | None) -> str:
    if isinstance(value, bytes):
        # 65001 stands for UTF-8.
        name = "utf-8" if encoding == "cp65001" else encoding
        return decode(value.rstrip(b"\0"), declared=name).text
    return value if isinstance(value, str) else ""


@contextmanager
def opened(source: Source, task: Task) -> Iterator[Ole]:
    """The document as a compound file.

    Raises:
        CannotRead: it is damaged.
    """
    with source.open() as file:
        try:
            ole = olefile.OleFileIO(file)
        except (OSError, ValueError, IndexError, TypeError) as error:
            raise CannotRead(
                "damaged", "The document is damaged and could not be opened."
            ) from error
        with ole:
            yield Ole(ole, task.limits.unpacked_bytes)
