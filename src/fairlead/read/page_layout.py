"""Words, lines and tables on a page, as a PDF or OCR places them."""

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
    bold: bool = False


class Ruling(NamedTuple):
    """A straight line on the page, horizontal or vertical."""

    left: float
    top: float
    right: float
    bottom: float


class Table(NamedTuple):
    """Rows of cells; all rows have the same number of cells."""

    rows: list[list[str]]


Block = Line | Table
