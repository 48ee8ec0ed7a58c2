"""What every kind's reader shares: the document at hand, the draft of its text, its reader."""

from __future__ import annotations

import io
import mmap
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

HEAD_BYTES = 65_536
MAX_DIRECTORY_BYTES = 4_000_000
MAX_FACT_CHARACTERS = 300
NO_TEXT = "no text was found: the document may be a scan"

_UNWANTED = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_OTHER_NEWLINE = re.compile("\r\n?")
_COUNTED_AT_ONCE = 1_000_000


@cache  # looking up a version takes longer than reading a letter
def library(name: str) -> str:
    """A library's name and version, as facts name the extractor."""
    return f"{name} {version(name)}"


class CannotRead(Exception):
    """The document cannot be read; `detail` tells its customer why.

    Codes: unsupported, damaged, encrypted, too-large, empty.
    """

    def __init__(self, code: str, detail: str, *, kind: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.kind = kind


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What reading one document may yield and unpack, and the languages of its scans."""

    characters: int = 20_000_000
    pages: int = 5_000
    pixels: int = 100_000_000
    unpacked_bytes: int = 500_000_000
    ratio: int = 200
    members: int = 1_000
    languages: tuple[str, ...] = ("eng", "spa", "por", "pol", "deu", "fra")


@dataclass(frozen=True, slots=True)
class Part:
    """A file inside a document, such as an attachment, to be read as a document of its own."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Extracted:
    """A document that was read. The text encodes to UTF-8 and has no control characters."""

    kind: str
    text: str
    markdown: str | None
    facts: dict[str, JSON]
    parts: tuple[Part, ...] = ()


def clean(text: str) -> str:
    """The text with plain newlines, without NUL, control characters and lone surrogates.

    Tab, newline and form feed stay.
    """
    return _UNWANTED.sub("", _OTHER_NEWLINE.sub("\n", text))


def clean_line(text: str) -> str:
    """The text as one short line, fit to be a fact."""
    # Cut first: a title of megabytes must not be cleaned as a whole.
    return " ".join(clean(text[: 4 * MAX_FACT_CHARACTERS]).split())[:MAX_FACT_CHARACTERS]


def count_words(text: str) -> int:
    """The number of words, counted in slices so that a large text needs little memory."""
    words = 0
    for start in range(0, len(text), _COUNTED_AT_ONCE):
        words += len(text[start : start + _COUNTED_AT_ONCE].split())
        if start and not text[start - 1].isspace() and not text[start].isspace():
            words -= 1  # one word on both sides of the cut
    return words


@dataclass(slots=True)
class Draft:
    """The text of a document while it is being gathered, never longer than `limit`."""

    kind: str
    extractor: str
    limit: int
    full: bool = False
    _length: int = 0
    _pieces: list[str] = field(default_factory=list)
    _facts: dict[str, JSON] = field(default_factory=dict)
    _warnings: list[str] = field(default_factory=list)

    def add(self, piece: str) -> bool:
        """Append a piece; False when the limit is reached and reading may stop."""
        room = self.limit - self._length
        if len(piece) > room:
            piece = piece[:room]
            self.full = True
        self._pieces.append(piece)
        self._length += len(piece)
        return not self.full

    def fact(self, name: str, value: JSON) -> None:
        """Record a fact; an empty string is none."""
        if isinstance(value, str):
            value = clean_line(value)
        if value not in ("", None):
            self._facts[name] = value

    def warn(self, warning: str) -> None:
        """Record a sentence that the customer should see with the text."""
        self._warnings.append(warning)

    def finish(self) -> Extracted:
        """The document as it was read. A document without text says so in its warnings."""
        text = clean("".join(self._pieces)).strip("\n\f ")
        if self.full:
            self.warn(f"the text was cut after {self.limit} characters")
        if not text.strip():
            self.warn(NO_TEXT)
        warnings: list[JSON] = [clean_line(warning) for warning in self._warnings]
        facts: dict[str, JSON] = {
            **self._facts,
            "words": count_words(text),
            "warnings": warnings,
            "extractor": self.extractor,
        }
        return Extracted(self.kind, text, None, facts)


class _DirectoryGuard(io.FileIO):
    """A file that refuses giant single reads: only a giant zip directory asks for one."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise CannotRead("too-large", "The document is an archive with too many members.")
        return super().read(size) or b""


@dataclass(frozen=True)
class Source:
    """A document on disk, with what recognising it needs."""

    path: Path

    @cached_property
    def size(self) -> int:
        """Bytes in the file."""
        return self.path.stat().st_size

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the file."""
        return self.read(HEAD_BYTES)

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes from the start."""
        with self.path.open("rb") as file:
            return file.read(limit)

    @contextmanager
    def archive(self) -> Iterator[zipfile.ZipFile]:
        """The file as a zip archive.

        Raises:
            zipfile.BadZipFile: it is none.
            CannotRead: its directory is too large to be loaded.
        """
        with _DirectoryGuard(str(self.path)) as file, zipfile.ZipFile(file) as archive:
            yield archive

    @cached_property
    def members(self) -> frozenset[str]:
        """The names in a zip archive; empty where the file is no readable one."""
        if not self.head.startswith(b"PK\x03\x04"):
            return frozenset()
        try:
            with self.archive() as archive:
                return frozenset(archive.namelist())
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
            return frozenset()

    def has_ole_stream(self, name: str) -> bool:
        """Whether an OLE file (old Office, encrypted Office) has a stream of this name."""
        wanted = name.encode("utf-16-le")
        with (
            self.path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            at = content.find(wanted)
            # A directory entry lies on a 128-byte boundary: the same word in a text does not count.
            while at != -1 and at % 128:
                at = content.find(wanted, at + 1)
            return at != -1


class Rank(IntEnum):
    """The order in which readers are asked: the surest sign first."""

    SIGNATURE = 0
    STRUCTURE = 1
    ANY_TEXT = 2


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of document: how it is recognised by its content, and how it is read.

    `read` gets the document and the largest number of characters wanted. It may raise
    CannotRead with a better reason; any other exception means that the document is damaged.
    """

    kind: str
    rank: Rank
    recognises: Callable[[Source], bool]
    read: Callable[[Source, int], Extracted]
