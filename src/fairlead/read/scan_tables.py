"""Finds tables among the lines that OCR recognised.

OCR takes the columns of a table without rules for columns of prose, and drops single digits among
them. So rows are put together by their places first, and the area of a table is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from fairlead.read.aligned_tables import take_aligned_tables
from fairlead.read.page_layout import Block, Line, PageContent, Table

_SAME_ROW = 0.5  # of the height of the lower line
_MIN_LETTERS = 0.9  # of those read before: a column of digits was perhaps read as words
_MAX_AREAS = 5  # read again on a page


class Area(NamedTuple):
    """A part of a picture, in pixels."""

    left: int
    top: int
    right: int
    bottom: int


def page_with_tables(
    lines: list[Line], text: str, read_rows: Callable[[Area], list[Line]]
) -> tuple[PageContent, list[Line]]:
    """Return a page with its tables, and its lines; `read_rows` reads an area again, row by row.

    A line without words separates paragraphs. A page without tables keeps its text as it is.
    """
    tables = [block for block in take_aligned_tables(_by_place(lines)) if isinstance(block, Table)]
    if not tables:
        return PageContent(text, _without_places(lines)), lines
    for table in tables[:_MAX_AREAS]:
        again = read_rows(_area(table.lines, lines))
        if _letters(again) >= _MIN_LETTERS * _letters(table.lines):
            lines = _replaced(lines, table.lines, again)
    text = "\n".join(line.text for line in lines).strip("\n")
    return PageContent(text, _without_places(take_aligned_tables(list(lines)))), lines


def _by_place(lines: list[Line]) -> list[Block]:
    """Return the lines from top to bottom, and those side by side from left to right."""
    rows: list[list[Line]] = []
    for line in sorted((line for line in lines if line.words), key=lambda line: line.words[0].top):
        first, word = rows[-1][0].words[0] if rows else None, line.words[0]
        if first and first.bottom - word.top > _SAME_ROW * (word.bottom - word.top):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda line: line.words[0].left)]


def _area(table: Iterable[Line], lines: list[Line]) -> Area:
    """Return the area of a table, as wide as the text of the page: a column may be missing."""
    inside = [word for line in table for word in line.words]
    everywhere = [word for line in lines for word in line.words]
    margin = max(word.bottom - word.top for word in inside) / 2
    return Area(
        int(max(0, min(word.left for word in everywhere) - margin)),
        int(max(0, min(word.top for word in inside) - margin)),
        int(max(word.right for word in everywhere) + margin),
        int(max(word.bottom for word in inside) + margin),
    )


def _letters(lines: Iterable[Line]) -> int:
    return sum(len(word.text) for line in lines for word in line.words)


def _replaced(lines: list[Line], table: tuple[Line, ...], again: list[Line]) -> list[Line]:
    """Put the lines of a table where its first line was."""
    taken = set(map(id, table))
    first = next(index for index, line in enumerate(lines) if id(line) in taken)
    before, after = lines[:first], [line for line in lines[first:] if id(line) not in taken]
    while after and not after[0].words:
        after = after[1:]
    while before and not before[-1].words:
        before = before[:-1]
    blank = Line("", [])
    return [*before, blank, *again, blank, *after]


def _without_places(blocks: Iterable[Block]) -> list[Block]:
    """Drop the places of words: their heights in a scan do not show headings."""
    return [Line(block.text, []) if isinstance(block, Line) else block for block in blocks]
