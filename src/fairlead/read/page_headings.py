"""Recognises the headings of a document by the size and weight of their letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_LARGER = 1.14  # than the body text
_SAME_SIZE = 1.05
_MAX_CHARACTERS = 200
_MAX_BOLD_CHARACTERS = 100
_MAX_REPEATS = 3  # a text on more pages is a running title
_MIN_LETTERS = 3
_MAX_LEVEL = 6
_SENTENCE_END = (".", ",", ";", ":")
_DIGITS = re.compile(r"\d+")


class Paragraph(NamedTuple):
    """Lines of one size and weight. The height is 0 if the size is not known."""

    text: str
    height: float
    bold: bool


class Headings:
    """Decides which paragraphs of a document are headings, and on which level."""

    def __init__(self, paragraphs: Sequence[Paragraph]) -> None:
        self._repeats = Counter(
            _normal(p.text) for p in paragraphs if len(p.text) <= _MAX_CHARACTERS
        )
        self._body = _body_height(paragraphs)
        heights = {p.height for p in paragraphs if self._is_larger(p) and self._is_title(p)}
        self._sizes = _distinct_sizes(heights)

    def level(self, paragraph: Paragraph, following: Paragraph | None) -> int:
        """Return the level of a heading, 1 to 6; 0 for other text."""
        if not self._is_title(paragraph):
            return 0
        if self._is_larger(paragraph):
            smaller = sum(size > paragraph.height * _SAME_SIZE for size in self._sizes)
            return min(smaller + 1, _MAX_LEVEL)
        if self._is_bold_title(paragraph, following):
            return min(len(self._sizes) + 1, _MAX_LEVEL)
        return 0

    def _is_larger(self, paragraph: Paragraph) -> bool:
        return paragraph.height > _LARGER * self._body > 0

    def _is_title(self, paragraph: Paragraph) -> bool:
        text = paragraph.text
        if len(text) > _MAX_CHARACTERS or self._repeats[_normal(text)] > _MAX_REPEATS:
            return False
        return sum(map(str.isalpha, text)) >= _MIN_LETTERS

    def _is_bold_title(self, paragraph: Paragraph, following: Paragraph | None) -> bool:
        """Return whether bold text stands above text that is not bold."""
        if not paragraph.bold or paragraph.height * _SAME_SIZE < self._body:
            return False
        if following is None or following.bold:
            return False
        is_short = len(paragraph.text) <= _MAX_BOLD_CHARACTERS and "\n" not in paragraph.text
        return is_short and not paragraph.text.endswith(_SENTENCE_END)


def _body_height(paragraphs: Sequence[Paragraph]) -> float:
    """Return the height of most letters."""
    letters: Counter[float] = Counter()
    for paragraph in paragraphs:
        if paragraph.height:
            letters[round(paragraph.height, 1)] += len(paragraph.text)
    return max(letters, key=lambda height: letters[height]) if letters else 0.0


def _distinct_sizes(heights: Iterable[float]) -> list[float]:
    sizes: list[float] = []
    for height in sorted(heights, reverse=True):
        if not sizes or height * _SAME_SIZE < sizes[-1]:
            sizes.append(height)
    return sizes


def _normal(text: str) -> str:
    return _DIGITS.sub("0", text)
