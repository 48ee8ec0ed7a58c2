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
    """Rows of cells, all with the same number, and the lines they were made of."""

    rows: list[list[str]]
    lines: tuple[Line, ...] = ()


Block = Line | Table


class PageContent(NamedTuple):
    """The text of a page, and its lines and tables."""

    text: str
    blocks: list[Block]
