"""OLE compound files: the container of old Office, Outlook and encrypted Office files."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import olefile

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task
from fairlead.read.decode import decode
from fairlead.read.draft import Draft
from fairlead.read.error_guard import PROPERTIES


class Ole:
    """The streams of a compound file, each within the limits."""

    def __init__(self, file: olefile.OleFileIO, limit: int) -> None:
        self._file = file
        self._limit = limit

    def stream(self, *path: str) -> bytes:
        """Return the content of a stream; empty if there is none."""
        if not self._file.exists(list(path)):
            return b""
        if self._file.get_size(list(path)) > self._limit:
            raise CannotRead("too-large", "The document has a part that is too large.")
        with self._file.openstream(list(path)) as stream:
            data: bytes = stream.read()
        return data

    def names(self) -> list[list[str]]:
        """Return the paths of all streams."""
        return [list(path) for path in self._file.listdir(streams=True, storages=False)]

    def add_properties(self, draft: Draft) -> None:
        """Record the properties of the document; damaged ones only cause a warning."""
        with draft.guard(PROPERTIES):
            properties = self._file.get_metadata()
            codepage = properties.codepage or 0
            encoding = f"cp{codepage}" if codepage > 0 else None
            draft.fact("title", _text(properties.title, encoding))
            draft.fact("author", _text(properties.author, encoding))
            if isinstance(properties.create_time, datetime):
                draft.created(properties.create_time)


def _text(value: object, encoding: str | None) -> str:
    if isinstance(value, bytes):
        # Code page 65001 is UTF-8.
        name = "utf-8" if encoding == "cp65001" else encoding
        return decode(value.rstrip(b"\0"), declared=name).text
    return value if isinstance(value, str) else ""


@contextmanager
def open_ole(source: Source, task: Task) -> Iterator[Ole]:
    """Open the document as a compound file.

    Raises:
        CannotRead: it is damaged.
    """
    with source.open() as file:
        try:
            ole = olefile.OleFileIO(file)
        except (OSError, ValueError, IndexError, TypeError) as error:
            detail = "The document is damaged and could not be opened."
            raise CannotRead("damaged", detail) from error
        with ole:
            yield Ole(ole, task.limits.unpacked_bytes)


def has_stream(source: Source, name: str) -> bool:
    """Return whether the document is a compound file with this stream.

    Streams of embedded objects do not count: they are in storages.

    Raises:
        CannotRead: the compound file is damaged.
    """
    if "streams" not in source.known:
        source.known["streams"] = frozenset()
        if source.is_ole:
            with open_ole(source, Task()) as ole:
                names = (path[0].lower() for path in ole.names() if len(path) == 1)
                source.known["streams"] = frozenset(names)
    return name.lower() in source.known["streams"]


def _read_encrypted(source: Source, task: Task) -> Extracted:
    """Decrypt a new Office document, recognise its kind and read it."""
    if task.password is None:
        raise CannotRead.encrypted("document", None)
    # Imported late: kinds imports all readers.
    kinds = importlib.import_module("fairlead.read.kinds")
    decrypted = _decrypt(source, task)
    extracted: Extracted = kinds.recognise(decrypted).read(decrypted, task)
    return extracted


def decrypt_old_office(source: Source, task: Task) -> Source:
    """Decrypt a document of old Office.

    Raises:
        CannotRead: the password is missing or wrong.
    """
    if task.password is None or source.content is not None:
        raise CannotRead.encrypted("document", task.password)
    return _decrypt(source, task)


def _decrypt(source: Source, task: Task) -> Source:
    # Imported late: cryptography is large and seldom needed.
    msoffcrypto: Any = importlib.import_module("msoffcrypto")
    output = io.BytesIO()
    try:
        with source.open() as file:
            document = msoffcrypto.OfficeFile(file)
            document.load_key(password=task.password)
            document.decrypt(output)
    except MemoryError:
        raise
    except Exception as error:
        # A wrong password causes many kinds of errors.
        raise CannotRead.encrypted("document", task.password) from error
    if not output.getvalue():
        raise CannotRead("damaged", "The document is damaged and could not be unlocked.")
    return Source(source.path, output.getvalue())


READER = Reader(
    "office-encrypted",
    Rank.SIGNATURE,
    lambda source: has_stream(source, "EncryptedPackage"),
    _read_encrypted,
)
