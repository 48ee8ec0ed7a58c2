"""Words, lines and tables with their places on a page of a PDF or of a scan."""

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
    """Rows with the same number of cells, and the lines that they were made of."""

    rows: list[list[str]]
    lines: tuple[Line, ...] = ()


Block = Line | Table


class PageContent(NamedTuple):
    """The text of a page, and its lines and tables."""

    text: str
    blocks: list[Block]
