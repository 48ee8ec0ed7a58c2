"""Attachments and archive members on their way to being documents of their own."""

from __future__ import annotations

import posixpath
import unicodedata

from fairlead.read.base import Part
from fairlead.read.draft import Draft

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
