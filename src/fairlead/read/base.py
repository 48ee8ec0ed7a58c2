"""What every reader shares: limits, the result, the refusal, and how a kind is declared."""

from __future__ import annotations

import io
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

HEAD_BYTES = 65_536
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@dataclass(frozen=True)
class Source:
    """A document's bytes, with what recognising it needs."""

    path: Path
    content: bytes | None = None  # instead of the file: what a password unlocked
    # What one reader found out and another may want to know.
    known: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)

    @cached_property
    def size(self) -> int:
        """Bytes in the document."""
        return self.path.stat().st_size if self.content is None else len(self.content)

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the document."""
        return self.read(HEAD_BYTES)

    def open(self) -> BinaryIO:
        """The bytes as a file; the caller closes it."""
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes from the start."""
        with self.open() as file:
            return file.read(limit)

    @cached_property
    def is_ole(self) -> bool:
        """Whether it is the container of old Office, Outlook and encrypted Office files."""
        return self.head.startswith(OLE)

    def has_ole_stream(self, name: str) -> bool:
        """Whether an OLE file has a stream of this name."""
        return self.is_ole and self._has_entry(name)

    def _has_entry(self, name: str) -> bool:
        wanted = (name + "\0").encode("utf-16-le")
        with self.mapped() as content:
            at = content.find(wanted)
            # A directory entry lies on a 128-byte boundary: the same word in a text does not count.
            while at != -1 and at % 128:
                at = content.find(wanted, at + 1)
            return at != -1

    @contextmanager
    def mapped(self) -> Iterator[mmap.mmap | bytes]:
        """All bytes, without reading them at once."""
        if self.content is not None:
            yield self.content
            return
        with (
            self.path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            yield content


JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

MAX_FACT_CHARACTERS = 300

_UNWANTED = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_OTHER_NEWLINE = re.compile("\r\n?")


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much of a document is read, and how much it may grow on the way."""

    characters: int = 20_000_000
    pages: int = 5_000
    pixels: int = 100_000_000
    unpacked_bytes: int = 500_000_000
    ratio: int = 200
    members: int = 1_000
    languages: tuple[str, ...] = ("eng", "spa", "por", "pol", "deu", "fra")


@dataclass(frozen=True, slots=True)
class Part:
    """An attachment or archive member, never empty, that becomes a document of its own.

    The name is one line, at most 255 characters, and no path.
    """

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Extracted:
    """A document that was read. Its texts encode to UTF-8 and have no control characters.

    Where `markdown` is None, the text is its own Markdown.
    """

    kind: str
    text: str
    markdown: str | None
    facts: dict[str, JSON]
    parts: tuple[Part, ...] = ()


class CannotRead(Exception):
    """The document cannot be read; `detail` tells its customer why.

    Codes: unsupported, damaged, encrypted, too-large, empty.
    """

    def __init__(self, code: str, detail: str, *, kind: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.kind = kind


def ignore(_done: int, _pages: int) -> None:
    """Tell nobody of progress."""


@dataclass(frozen=True, slots=True)
class Task:
    """How a document is to be read."""

    limits: ReadLimits = ReadLimits()
    password: str | None = None
    on_progress: Callable[[int, int], None] = ignore


class Rank(IntEnum):
    """The order in which readers are asked: the surest sign first."""

    SIGNATURE = 0
    CONTAINER = 1
    STRUCTURE = 2
    TABLE = 3
    ANY_TEXT = 4


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of document: how it is recognised by its content, and how it is read.

    `read` may raise CannotRead with a better reason; any other exception means that the
    document is damaged.
    """

    kind: str
    rank: Rank
    recognises: Callable[[Source], bool]
    read: Callable[[Source, Task], Extracted]


@cache  # looking up a version takes longer than reading a letter
def library(name: str) -> str:
    """A library's name and version, as facts name the extractor."""
    return f"{name} {version(name)}"


def clean(text: str) -> str:
    """The text with plain newlines, without NUL, control characters and lone surrogates.

    Tab, newline and form feed stay.
    """
    return _UNWANTED.sub("", _OTHER_NEWLINE.sub("\n", text))


def clean_line(text: str) -> str:
    """The text as one short line, fit to be a fact."""
    # Cut first: a title of megabytes must not be cleaned as a whole.
    return " ".join(clean(text[: 4 * MAX_FACT_CHARACTERS]).split())[:MAX_FACT_CHARACTERS]


def password_error(what: str, password: str | None) -> CannotRead:
    """The refusal of a document whose password is missing or wrong."""
    how = "the password given does not open it" if password else "give it, or send it without one"
    return CannotRead("encrypted", f"The {what} is protected by a password; {how}.")
