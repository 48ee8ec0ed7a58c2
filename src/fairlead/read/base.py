"""Shared by all readers: the document, limits, the result, the error, and the class `Reader`."""

from __future__ import annotations

import io
import math
import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, TypeAlias

from fairlead.errors import MissingExtra

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

_MAX_FACT_CHARACTERS = 300
_UNWANTED = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_OTHER_NEWLINE = re.compile("\r\n?")
_HEAD_BYTES = 65_536
# The container of old Office, Outlook and encrypted Office files.
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much of a document is read, and how much it may grow when unpacked."""

    characters: int = 20_000_000
    pages: int = 5_000
    pixels: int = 100_000_000
    unpacked_bytes: int = 500_000_000
    ratio: int = 200
    members: int = 1_000
    languages: tuple[str, ...] = ("eng", "spa", "por", "pol", "deu", "fra")
    page_pictures: int = 200
    output_bytes: int = 100_000_000  # of a searchable PDF, and of all pictures of pages
    output_seconds: float = 80.0  # after which no output is begun


@dataclass(frozen=True)
class Source:
    """The document: on disk, or decrypted in memory."""

    path: Path
    content: bytes | None = None  # decrypted, instead of the file's
    # Results that several readers need to recognise a document.
    known: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)

    @cached_property
    def size(self) -> int:
        return self.path.stat().st_size if self.content is None else len(self.content)

    @cached_property
    def head(self) -> bytes:
        return self.read(_HEAD_BYTES)

    def open(self) -> BinaryIO:
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def read(self, limit: int) -> bytes:
        with self.open() as file:
            return file.read(limit)

    @cached_property
    def is_ole(self) -> bool:
        return self.head.startswith(OLE)

    @contextmanager
    def mapped(self) -> Iterator[mmap.mmap | bytes]:
        if self.content is not None:
            yield self.content
            return
        with (
            self.path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            yield content


@dataclass(frozen=True, slots=True)
class Part:
    """An attachment or archive member, never empty, that becomes a document of its own.

    The name is one line, at most 255 characters, and no path.
    """

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Extracted:
    """The result of reading. Its texts encode to UTF-8 and have no control characters.

    If `markdown` is None, it equals the text.
    """

    kind: str
    text: str
    markdown: str | None
    facts: dict[str, JSON]
    parts: tuple[Part, ...] = ()


class CannotRead(Exception):
    """The document cannot be read; `detail` explains it to the customer.

    Codes: unsupported, damaged, encrypted, too-large, empty.
    """

    def __init__(self, code: str, detail: str, *, kind: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.kind = kind

    @classmethod
    def encrypted(cls, subject: str, password: str | None) -> CannotRead:
        """Return the error for a missing or wrong password."""
        wrong = "the password given does not open it"
        advice = wrong if password else "send it again with its password"
        return cls("encrypted", f"The {subject} is protected by a password; {advice}.")


# They end the document; anything else costs only the part that is being read.
FINAL_ERRORS = (CannotRead, MemoryError, MissingExtra)


def ignore(_done: int, _pages: int) -> None:
    """Ignore progress."""


def ignore_file(_name: str, _content: bytes) -> None:
    """Ignore an output."""


@dataclass(frozen=True, slots=True)
class Task:
    """Options of one reading.

    `outputs` are the optional files that are wanted; `on_file` gets each when it is made. No output
    begins after `output_deadline`, a time of the monotonic clock.
    """

    limits: ReadLimits = ReadLimits()
    password: str | None = None
    on_progress: Callable[[int, int], None] = ignore
    outputs: tuple[str, ...] = ()
    on_file: Callable[[str, bytes], None] = ignore_file
    output_deadline: float = math.inf


class Rank(IntEnum):
    """The order in which readers are tried: the most certain evidence first."""

    SIGNATURE = 0
    CONTAINER = 1
    STRUCTURE = 2
    TABLE = 3
    ANY_TEXT = 4


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of document: how to recognise it by its content, and how to read it.

    `read` may raise CannotRead; any other exception means that the document is damaged.
    """

    kind: str
    rank: Rank
    recognises: Callable[[Source], bool]
    read: Callable[[Source, Task], Extracted]


@cache  # looking up a version takes longer than reading a letter
def library(name: str) -> str:
    """Return a library's name and version for the fact `extractor`."""
    return f"{name} {version(name)}"


def clean(text: str) -> str:
    """Normalise newlines; drop lone surrogates and controls except tab, newline and form feed."""
    return _UNWANTED.sub("", _OTHER_NEWLINE.sub("\n", text))


def clean_line(text: str) -> str:
    """Return the text as one short line, for a fact."""
    # Cut first: a title of megabytes must not be cleaned as a whole.
    return " ".join(clean(text[: 4 * _MAX_FACT_CHARACTERS]).split())[:_MAX_FACT_CHARACTERS]
