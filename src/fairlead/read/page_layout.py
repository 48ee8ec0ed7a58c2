"""Words and lines on a page, as a PDF or OCR places them."""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    """A word and its box. The origin is the top left of the page, and y grows downwards."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


class Line(NamedTuple):
    """A line of text and its words, in reading order."""

    text: str
    words: list[Word]
