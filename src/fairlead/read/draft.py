"""The text, Markdown, facts and parts of a document while it is being read."""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.read.base import (
    JSON,
    CannotRead,
    Extracted,
    Part,
    ReadLimits,
    clean,
    clean_line,
)
from fairlead.read.dates import iso
from fairlead.read.error_guard import LANGUAGE, ErrorGuard
from fairlead.read.language import language_of

NO_TEXT = "no text was found in the document"
_MAX_WARNINGS = 20
_MAX_ATTACHMENTS = 100
_MAX_ATTACHMENT_NAME = 120
_MAX_PART_NAME = 255
_MAX_SUFFIX = 16


def count_words(text: str, at_once: int = 1_000_000) -> int:
    """Return the number of words; counts in slices so that a large text needs little memory."""
    words = 0
    for start in range(0, len(text), at_once):
        words += len(text[start : start + at_once].split())
        if start and not text[start - 1].isspace() and not text[start].isspace():
            words -= 1  # one word on both sides of the cut
    return words


def safe_name(name: str) -> str:
    """Return the name as one line without folders, controls and bidirectional marks."""
    base = name[:4_096].replace("\\", "/").rstrip("/").rpartition("/")[2]
    visible = "".join(c if unicodedata.category(c)[0] not in "CZ" else _blank(c) for c in base)
    line = " ".join(visible.split())
    if not line.strip("."):
        return "document"
    stem, suffix = posixpath.splitext(line)
    suffix = suffix if len(suffix) <= _MAX_SUFFIX else ""
    return line if len(line) <= _MAX_PART_NAME else stem[: _MAX_PART_NAME - len(suffix)] + suffix


def _blank(character: str) -> str:
    return " " if unicodedata.category(character)[0] == "Z" or character.isspace() else ""


@dataclass(slots=True)
class BoundedText:
    """Pieces of text, together never longer than the limit."""

    limit: int
    full: bool = False
    length: int = 0
    pieces: list[str] = field(default_factory=list)

    def add(self, piece: str) -> bool:
        """Append a piece; return False if the limit is reached and reading may stop."""
        room = self.limit - self.length
        if len(piece) > room:
            piece = piece[:room]
            self.full = True
        self.pieces.append(piece)
        self.length += len(piece)
        return not self.full

    def clear(self) -> None:
        """Drop everything."""
        self.pieces, self.length, self.full = [], 0, False

    def whole(self) -> str:
        """Return the text. Form feeds at its start stay: pages without text count as pages."""
        text = clean("".join(self.pieces)).rstrip("\n\f ")
        return text.lstrip("\n ")


class Draft:
    """Collects what a reader extracts from a document, within the limits."""

    def __init__(self, kind: str, extractor: str, limits: ReadLimits) -> None:
        self.kind = kind
        self.extractor = extractor
        self.limits = limits
        self.text = BoundedText(limits.characters)
        self.markdown = BoundedText(limits.characters)
        self.parts: list[Part] = []
        self.guard = ErrorGuard()
        self._facts: dict[str, JSON] = {}
        self._warnings: list[str] = []

    @property
    def full(self) -> bool:
        """Whether the limit is reached and reading may stop."""
        return self.text.full

    @property
    def room(self) -> int:
        """The number of characters that still fit."""
        return self.text.limit - self.text.length

    def add(self, piece: str) -> bool:
        """Append to the plain text; return False if the limit is reached."""
        return self.text.add(piece)

    def fact(self, name: str, value: JSON) -> None:
        """Record a fact, unless it is None or an empty string."""
        if isinstance(value, str):
            value = clean_line(value)
        if value not in ("", None):
            self._facts[name] = value

    def created(self, value: object) -> None:
        """Record the time of creation, if the value is a time."""
        self.fact("created", iso(value))

    def limit_pages(self, pages: int, unit: str = "pages") -> int:
        """Record the number of pages and return how many to read; warn if that is not all."""
        self.fact("pages", pages)
        wanted = min(pages, self.limits.pages)
        if wanted < pages:
            self.warn(f"only the first {wanted} of {pages} {unit} were read")
        return wanted

    def attachments(self, names: Iterable[str]) -> None:
        """Record the names of the first attachments."""
        short: list[JSON] = [clean_line(name)[:_MAX_ATTACHMENT_NAME] for name in names]
        if short:
            self.fact("attachments", short[:_MAX_ATTACHMENTS])

    def warn(self, warning: str) -> None:
        """Record a sentence for the customer, unless it is recorded already."""
        if warning not in self._warnings and len(self._warnings) < _MAX_WARNINGS:
            self._warnings.append(warning)

    def finish(self) -> Extracted:
        """Return the result. A document without text has a warning that says so.

        Raises:
            CannotRead: none of its pages, slides or sheets could be read.
        """
        if self.guard.has_lost_all:
            raise CannotRead("damaged", "The document is damaged: nothing of it could be read.")
        text = self.text.whole()
        markdown = self.markdown.whole()
        if self.full:
            self.warn(f"the text was cut after {self.limits.characters} characters")
        elif self.markdown.full:
            self.warn(f"the Markdown was cut after {self.limits.characters} characters")
        if not text.strip():
            self.warn(NO_TEXT)
        with self.guard(LANGUAGE):
            self._facts.setdefault("language", language_of(text))
        warnings: list[JSON] = [
            clean_line(warning) for warning in [*self.guard.warnings(), *self._warnings]
        ]
        facts: dict[str, JSON] = {
            **{name: value for name, value in self._facts.items() if value is not None},
            "words": count_words(text),
            "warnings": warnings,
            "extractor": self.extractor,
        }
        own_markdown = markdown if markdown and markdown != text else None
        return Extracted(self.kind, text, own_markdown, facts, tuple(self.parts))


class Parts:
    """Collects attachments and archive members within the limits; warns if it leaves some out."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._bytes = 0
        self.names: list[str] = []

    @property
    def full(self) -> bool:
        return len(self._draft.parts) >= self._draft.limits.members

    def add(self, name: str, content: bytes) -> None:
        """Add a part; of an empty part, only the name."""
        self.names.append(safe_name(name))
        if not content:
            self._draft.warn(f"a part is empty and was left out: {self.names[-1][:100]}")
        elif self.full:
            self._draft.warn(f"only the first {self._draft.limits.members} parts were taken")
        elif self._bytes + len(content) > self._draft.limits.unpacked_bytes:
            self._draft.warn("some parts were left out: together they are too large")
        else:
            self._bytes += len(content)
            self._draft.parts.append(Part(self.names[-1], content))

    def finish(self) -> None:
        """Record the names of all parts."""
        self._draft.attachments(self.names)
