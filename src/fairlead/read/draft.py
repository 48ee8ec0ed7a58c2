"""The text, the Markdown and the facts of a document while they are being gathered."""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.read.base import JSON, Extracted, Part, ReadLimits, clean, clean_line
from fairlead.read.dates import iso
from fairlead.read.language import language_of

NO_TEXT = "no text was found in the document"
MAX_WARNINGS = 20
MAX_NAMES = 100
_MAX_NAME_CHARACTERS = 120
_COUNTED_AT_ONCE = 1_000_000


def count_words(text: str) -> int:
    """The number of words, counted in slices so that a large text needs little memory."""
    words = 0
    for start in range(0, len(text), _COUNTED_AT_ONCE):
        words += len(text[start : start + _COUNTED_AT_ONCE].split())
        if start and not text[start - 1].isspace() and not text[start].isspace():
            words -= 1  # one word on both sides of the cut
    return words


@dataclass(slots=True)
class Bounded:
    """Pieces of text, never more characters than the limit."""

    limit: int
    full: bool = False
    length: int = 0
    pieces: list[str] = field(default_factory=list)

    def add(self, piece: str) -> bool:
        """Append a piece; False when the limit is reached and reading may stop."""
        room = self.limit - self.length
        if len(piece) > room:
            piece = piece[:room]
            self.full = True
        self.pieces.append(piece)
        self.length += len(piece)
        return not self.full

    def whole(self) -> str:
        """All pieces as one clean text."""
        return clean("".join(self.pieces)).strip("\n\f ")


class Draft:
    """A document as far as it was read, never longer than its limits."""

    def __init__(self, kind: str, extractor: str, limits: ReadLimits) -> None:
        self.kind = kind
        self.extractor = extractor
        self.limits = limits
        self.text = Bounded(limits.characters)
        self.markdown = Bounded(limits.characters)
        self.parts: list[Part] = []
        self._facts: dict[str, JSON] = {}
        self._warnings: list[str] = []

    @property
    def full(self) -> bool:
        """Whether the limit is reached and reading may stop."""
        return self.text.full

    @property
    def room(self) -> int:
        """How many characters may still come."""
        return self.text.limit - self.text.length

    def add(self, piece: str) -> bool:
        """Append to the plain text; False when the limit is reached and reading may stop."""
        return self.text.add(piece)

    def fact(self, name: str, value: JSON) -> None:
        """Record a fact; an empty string is none."""
        if isinstance(value, str):
            value = clean_line(value)
        if value not in ("", None):
            self._facts[name] = value

    def created(self, value: object) -> None:
        """Record the time of creation, where the value is a time."""
        self.fact("created", iso(value))

    def attachments(self, names: Iterable[str]) -> None:
        """Record the names of attachments, the first hundred."""
        short = [clean_line(name)[:_MAX_NAME_CHARACTERS] for name in names]
        kept: list[JSON] = [*short[:MAX_NAMES]]
        if kept:
            self.fact("attachments", kept)

    def warn(self, warning: str) -> None:
        """Record a sentence that the customer should see with the text, once."""
        if warning not in self._warnings and len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(warning)

    def finish(self) -> Extracted:
        """The document as it was read. A document without text says so in its warnings."""
        text = self.text.whole()
        markdown = self.markdown.whole()
        if self.full:
            self.warn(f"the text was cut after {self.limits.characters} characters")
        elif self.markdown.full:
            self.warn(f"the Markdown was cut after {self.limits.characters} characters")
        if not text.strip():
            self.warn(NO_TEXT)
        self._facts.setdefault("language", language_of(text))
        warnings: list[JSON] = [clean_line(warning) for warning in self._warnings]
        facts: dict[str, JSON] = {
            **{name: value for name, value in self._facts.items() if value is not None},
            "words": count_words(text),
            "warnings": warnings,
            "extractor": self.extractor,
        }
        own = markdown if markdown and markdown != text else None
        return Extracted(self.kind, text, own, facts, tuple(self.parts))


MAX_NAME = 255
_LONGEST_SUFFIX = 16


def safe_name(name: str, otherwise: str = "document") -> str:
    """The name as one line without folders, controls and signs that turn the writing around."""
    base = name[:4_096].replace("\\", "/").rstrip("/").rpartition("/")[2]
    kept = "".join(c if unicodedata.category(c)[0] not in "CZ" else _blank(c) for c in base)
    line = " ".join(kept.split())
    if not line.strip("."):
        return otherwise
    stem, suffix = posixpath.splitext(line)
    suffix = suffix if len(suffix) <= _LONGEST_SUFFIX else ""
    return line if len(line) <= MAX_NAME else stem[: MAX_NAME - len(suffix)] + suffix


def _blank(character: str) -> str:
    return " " if unicodedata.category(character)[0] == "Z" or character.isspace() else ""


class Parts:
    """Collects the parts of a container within its limits, and warns of those it leaves out."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._bytes = 0
        self.names: list[str] = []

    @property
    def full(self) -> bool:
        """Whether no more parts are taken."""
        return len(self._draft.parts) >= self._draft.limits.members

    def add(self, name: str, content: bytes) -> None:
        """Take a part; an empty one is only named."""
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
