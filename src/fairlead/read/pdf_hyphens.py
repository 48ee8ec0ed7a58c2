"""Distinguishes hyphens that break a word at the end of a line from hyphens of compounds."""

from __future__ import annotations

import re
from functools import partial

LINE_HYPHEN = "\ufffe"  # PDFium's mark for a hyphen at the end of a line, instead of a line break
_BROKEN = re.compile(rf"(\w[\w-]*){LINE_HYPHEN}\s?(?=(\w[\w-]*))")
_SLICE = 100_000
_WORD = re.compile(r"\w[\w-]*\w")


class LineHyphens:
    """Joins the broken words of one document, whose whole text shows which are compounds."""

    def __init__(self, text: str) -> None:
        broken = {(match[1].lower(), match[2].lower()) for match in _BROKEN.finditer(text)}
        wanted = {left + hyphen + right for left, right in broken for hyphen in ("", "-")}
        self._known: set[str] = set()
        # In slices, so that the words of a long text are never held at once.
        for start in range(0, len(text) if wanted else 0, _SLICE):
            words = _WORD.findall(text[start : start + _SLICE].lower())
            self._known.update(wanted.intersection(words))

    def join(self, text: str) -> str:
        """Return the text with broken words joined and the hyphens of compounds."""
        if LINE_HYPHEN not in text:
            return text
        return _BROKEN.sub(partial(_joined, self._known), text).replace(LINE_HYPHEN, "")


def _joined(known: set[str], match: re.Match[str]) -> str:
    left, right = match[1], match[2]
    if f"{left}-{right}".lower() in known:
        return f"{left}-"
    is_one_word = (left + right).lower() in known
    # No language breaks a word before a capital or a digit, unless all letters are capitals.
    return f"{left}-" if not is_one_word and not right[0].islower() else left
