"""The container of old Office and Outlook files, and what all of them have."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import olefile

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, password_error
from fairlead.read.decode import decode
from fairlead.read.draft import Draft


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
def open_ole(source: Source, task: Task) -> Iterator[Ole]:
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


def _is_encrypted(source: Source) -> bool:
    """Whether it is a compound file around an encrypted package."""
    return source.has_ole_stream("EncryptedPackage")


def _read_encrypted(source: Source, task: Task) -> Extracted:
    """What the right password unlocks, read as the kind that it is."""
    if task.password is None:
        raise password_error("document", None)
    # Whoever asks which kinds there are knows this one too: the question can only come later.
    kinds = importlib.import_module("fairlead.read.kinds")
    inner = _decrypt(source, task)
    found: Extracted = kinds.recognise(inner).read(inner, task)
    return found


def decrypt_old_office(source: Source, task: Task) -> Source:
    """A document of old Office without its lock.

    Raises:
        CannotRead: the password is missing or wrong.
    """
    if task.password is None or source.content is not None:
        raise password_error("document", task.password)
    return _decrypt(source, task)


def _decrypt(source: Source, task: Task) -> Source:
    # Cryptography is large: only who needs it loads it.
    office: Any = importlib.import_module("msoffcrypto")
    output = io.BytesIO()
    try:
        with source.open() as file:
            document = office.OfficeFile(file)
            document.load_key(password=task.password)
            document.decrypt(output)
    except MemoryError:
        raise
    except Exception as error:
        # A wrong password shows in many ways, from an error of its own to nonsense.
        raise password_error("document", task.password) from error
    content = output.getvalue()
    if not content:
        raise CannotRead("damaged", "The document is damaged and could not be unlocked.")
    return Source(source.path, content)


READER = Reader("office-encrypted", Rank.SIGNATURE, _is_encrypted, _read_encrypted)
