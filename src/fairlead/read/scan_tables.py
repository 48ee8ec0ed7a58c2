"""Finds tables among the lines that OCR recognised.

OCR mistakes the columns of a table without rules for columns of prose, and drops single digits in
them. So lines are first combined into rows by their places, and the area of a table is read again.
OCR mistakes ruling lines for letters, so they are removed before that; they tell which words share
a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median
from typing import NamedTuple

from fairlead.read.aligned_tables import take_aligned_tables
from fairlead.read.page_layout import Block, Line, PageContent, Ruling, Table
from fairlead.read.ruled_tables import Grid, find_grids, take_ruled_tables

_SAME_ROW = 0.5  # of the height of the lower line
_MIN_LETTERS = 0.9  # of the first reading, which may have read a column of digits as words
_MAX_AREAS = 5  # read again on a page
_PROSE_LINES = 0.5  # begin with a small letter
_PROSE_WORDS = 2.0  # in a line
_TEXT_HEIGHT = 12.0  # points: the usual height of a line, by which a picture is measured


class Area(NamedTuple):
    """A part of a picture, in pixels."""

    left: int
    top: int
    right: int
    bottom: int


def page_with_tables(
    lines: list[Line],
    text: str,
    rulings: Iterable[Ruling],
    read_rows: Callable[[Area], list[Line]],
) -> tuple[PageContent, list[Line]]:
    """Return a page with its tables, and its lines; `read_rows` reads an area again, row by row.

    A line without words separates paragraphs. A page without tables keeps its text as it is.
    """
    if ruled := _ruled_page(lines, rulings, read_rows):
        return ruled
    blocks = take_aligned_tables(_by_place(lines))
    tables = [block for block in blocks if isinstance(block, Table) and not _is_prose(block)]
    if not tables:
        return PageContent(text, without_places(lines)), lines
    for table in tables[:_MAX_AREAS]:
        lines = _read_again(lines, table.lines, read_rows(_area(table.lines, lines)))
    return PageContent(_text(lines), without_places(take_aligned_tables(list(lines)))), lines


def _ruled_page(
    lines: list[Line], rulings: Iterable[Ruling], read_rows: Callable[[Area], list[Line]]
) -> tuple[PageContent, list[Line]] | None:
    """Return a page with the tables whose cells are ruled; None if there are none."""
    heights = [word.bottom - word.top for line in lines for word in line.words]
    scale = _TEXT_HEIGHT / max(1.0, median(heights)) if heights else 1.0
    grids = find_grids([Ruling(*(scale * place for place in ruling)) for ruling in rulings])
    for grid in grids[:_MAX_AREAS]:
        inside = tuple(line for line in lines if line.words and _is_inside(line, grid, scale))
        if _is_table(inside, grid, scale):
            area = Area(*(int(edge / scale) for edge in grid.edges))
            lines = _read_again(lines, inside, read_rows(area))
    blocks = take_ruled_tables([_scaled(line, scale) for line in lines], grids)
    if not any(isinstance(block, Table) for block in blocks):
        return None
    return PageContent(_text(lines), without_places(take_aligned_tables(blocks))), lines


def _is_inside(line: Line, grid: Grid, scale: float) -> bool:
    return all(
        grid.contains(scale * (word.left + word.right) / 2, scale * (word.top + word.bottom) / 2)
        for word in line.words
    )


def _is_table(lines: tuple[Line, ...], grid: Grid, scale: float) -> bool:
    blocks = take_ruled_tables([_scaled(line, scale) for line in lines], [grid])
    return any(isinstance(block, Table) for block in blocks)


def _scaled(line: Line, scale: float) -> Line:
    words = [
        word._replace(
            left=scale * word.left,
            top=scale * word.top,
            right=scale * word.right,
            bottom=scale * word.bottom,
        )
        for word in line.words
    ]
    return line._replace(words=words)


def _text(lines: list[Line]) -> str:
    return "\n".join(line.text for line in lines).strip("\n")


def _read_again(lines: list[Line], table: tuple[Line, ...], second: list[Line]) -> list[Line]:
    """Use the second reading of a table, unless it lacks letters."""
    if _letters(second) < _MIN_LETTERS * _letters(table):
        return lines
    return _replaced(lines, table, second)


def _is_prose(table: Table) -> bool:
    """Return whether these are narrow columns of prose: lines begin in the middle of sentences."""
    columns = [[cell for cell in column if cell] for column in zip(*table.rows, strict=True)]
    cells = [cell for column in columns for cell in column]
    continued = sum(cell[0].islower() for cell in cells)
    return continued >= _PROSE_LINES * len(cells) and all(
        sum(len(cell.split()) for cell in column) >= _PROSE_WORDS * len(column)
        for column in columns
    )


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


def _replaced(lines: list[Line], table: tuple[Line, ...], second: list[Line]) -> list[Line]:
    """Put the lines of a table where its first line was."""
    table_ids = set(map(id, table))
    first = next(index for index, line in enumerate(lines) if id(line) in table_ids)
    before, after = lines[:first], [line for line in lines[first:] if id(line) not in table_ids]
    while after and not after[0].words:
        after = after[1:]
    while before and not before[-1].words:
        before = before[:-1]
    blank = Line("", [])
    return [*before, blank, *second, blank, *after]


def without_places(blocks: Iterable[Block]) -> list[Block]:
    """Drop the places of words: their heights in a scan do not show headings."""
    return [Line(block.text, []) if isinstance(block, Line) else block for block in blocks]
