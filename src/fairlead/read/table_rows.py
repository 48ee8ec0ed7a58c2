"""Combines lines of a page that may be rows of a table without ruling lines.

Lines are combined in the order of the text, so that columns of prose, which are written one after
the other, never become rows of single lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from fairlead.read.page_layout import Line, Word

# Distances, in heights of the row's text
CELL_GAP = 0.8  # between two cells
MIN_COLUMN_GAP = 0.35  # left free by all rows
WRAPPED_DISTANCE = 0.6  # between two lines of one cell
_OVERLAP = 0.7  # of a line with the one above: cells beside it may be half a line lower
_RISE = 8.0  # a cell in the middle of its row begins below the top of a taller one to its right
_SLACK = 0.6  # a cell may reach beyond the tallest of its row

_MAX_CELL_LINES = 12
_COLUMN_LINES = 3
_EQUAL_SPACES = 1.2
_LEADERS = ("....", ". . .", "____", "……")

Gap = tuple[float, float]


class Row(NamedTuple):
    """Words from left to right, and the gaps between cells.

    The words of a wrapped row are its whole cells, since these have several lines.
    """

    lines: list[Line]
    words: list[Word]
    gaps: list[Gap]
    top: float
    bottom: float
    height: float  # of a line
    is_contents: bool = False  # an entry of a table of contents, with dots before the page number
    is_wrapped: bool = False
    is_columns: bool = False  # all cells have several lines, as addresses side by side

    @property
    def column_gap(self) -> float:
        """The least distance of two columns; the cells of a wrapped row are known."""
        return 0.0 if self.is_wrapped else MIN_COLUMN_GAP * self.height


def rows_of_lines(lines: list[Line]) -> list[Row]:
    """Return the lines, those side by side as one row."""
    rows: list[Row] = []
    for line in lines:
        if rows and line.words and _is_beside(rows[-1], line):
            rows[-1] = _row([*rows[-1].lines, line])
        else:
            rows.append(_row([line]))
    return rows


def with_wrapped_rows(rows: list[Row]) -> list[Row]:
    """Return the rows, those that are lines of the same cells as one row.

    A document writes a cell of several lines whole, before it goes up again to the next cell.
    """
    if not any(map(_rises, rows, rows[1:])):
        return rows
    joined: list[Row] = []
    current: _Cells | None = None
    for row in rows:
        if current is not None and current.take(row):
            continue
        if current is not None:
            joined += current.rows()
        current = _Cells(row) if row.words and not row.is_contents else None
        if current is None:
            joined.append(row)
    return joined + list(current.rows() if current is not None else ())


def _rises(row: Row, following: Row) -> bool:
    if not row.words or not following.words:
        return False
    return following.top < row.bottom and following.words[0].left > row.words[-1].right


def overlap(first: Gap, second: Gap) -> float:
    return min(first[1], second[1]) - max(first[0], second[0])


@dataclass(slots=True)
class _Cell:
    words: list[Word]  # a word for each text
    left: float
    top: float
    right: float
    bottom: float
    lines: int = 1

    def add(self, text: Word) -> None:
        self.words.append(text)
        self.left, self.right = min(self.left, text.left), max(self.right, text.right)
        self.bottom = max(self.bottom, text.bottom)
        self.lines += 1

    def as_word(self) -> Word:
        text = " ".join(word.text for word in self.words)
        return Word(text, self.left, self.top, self.right, self.bottom)


@dataclass(slots=True)
class _Cells:
    """Rows of lines that may be one row of cells."""

    first: Row
    _rows: list[Row] = field(default_factory=list)
    _cells: list[_Cell] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rows.append(self.first)
        self._cells = _cells_of(self.first)

    def take(self, row: Row) -> bool:
        """Add lines that continue the last cell, or are to the right of it and not below."""
        if not row.words or row.is_contents:
            return False
        texts = _cells_of(row)
        # Text under the first cell and beside it belongs to the next row.
        if (len(texts) == 1 or len(self._cells) > 1) and self._continues(row, texts[0]):
            self._cells[-1].add(texts[0].as_word())
            self._cells += texts[1:]
        elif self._is_right(row):
            self._cells += texts
        else:
            return False
        self._rows.append(row)
        return True

    def _continues(self, row: Row, text: _Cell) -> bool:
        cell = self._cells[-1]
        if len(self._cells) > 1 and text.left <= self._cells[-2].right:
            return False
        if overlap((cell.left, cell.right), (text.left, text.right)) <= 0:
            return False
        height = min(row.height, self.first.height)
        return -_OVERLAP * height < row.top - cell.bottom < WRAPPED_DISTANCE * height

    def _is_right(self, row: Row) -> bool:
        if row.words[0].left <= self._cells[-1].right:
            return False
        top, bottom = min(c.top for c in self._cells), max(c.bottom for c in self._cells)
        return top - _RISE * row.height < row.top < bottom

    def rows(self) -> Iterator[Row]:
        """Yield one row, or the rows as they were if they are not lines of the same cells."""
        if len(self._rows) == 1 or not self._is_row():
            yield from self._rows
            return
        words = [cell.as_word() for cell in self._cells]
        yield Row(
            [line for row in self._rows for line in row.lines],
            words,
            [(before.right, after.left) for before, after in pairwise(words)],
            min(word.top for word in words),
            max(word.bottom for word in words),
            median(row.height for row in self._rows),
            is_wrapped=True,
            is_columns=all(cell.lines >= _COLUMN_LINES for cell in self._cells),
        )

    def _is_row(self) -> bool:
        if len(self._cells) < 2 or any(cell.lines > _MAX_CELL_LINES for cell in self._cells):
            return False
        tallest = max(self._cells, key=lambda cell: cell.bottom - cell.top)
        slack = _SLACK * self.first.height
        return all(
            cell.top > tallest.top - slack and cell.bottom < tallest.bottom + slack
            for cell in self._cells
        )


def _cells_of(row: Row) -> list[_Cell]:
    """Return the texts of a row: its words, together where there is no gap between cells."""
    starts = {right for _, right in row.gaps}
    cells: list[_Cell] = []
    texts: list[list[Word]] = []
    for word in row.words:
        if not texts or word.left in starts:
            texts.append([])
        texts[-1].append(word)
    for words in texts:
        text = " ".join(word.text for word in words)
        word = Word(text, words[0].left, row.top, max(w.right for w in words), row.bottom)
        cells.append(_Cell([word], word.left, word.top, word.right, word.bottom))
    return cells


def _is_beside(row: Row, line: Line) -> bool:
    if not row.words:
        return False
    top, bottom = _extent(line.words)
    common = min(row.bottom, bottom) - max(row.top, top)
    if common < 0.5 * min(row.height, bottom - top):
        return False
    left, right = min(word.left for word in line.words), max(word.right for word in line.words)
    return left >= row.words[-1].right or right <= row.words[0].left


def _extent(words: list[Word]) -> tuple[float, float]:
    if len(words) == 1:
        return words[0].top, words[0].bottom
    return median(word.top for word in words), median(word.bottom for word in words)


def _row(lines: list[Line]) -> Row:
    if len(lines) == 1 and len(lines[0].words) == 1:
        word = lines[0].words[0]
        height = word.bottom - word.top
        return Row(lines, [word], [], word.top, word.bottom, height, _has_leader(word.text))
    words = sorted((word for line in lines for word in line.words), key=lambda word: word.left)
    top, bottom = _extent(words) if words else (0.0, 0.0)
    width = CELL_GAP * (bottom - top)
    is_contents = any(_has_leader(line.text) for line in lines)
    gaps = [(a.right, b.left) for a, b in pairwise(words) if b.left - a.right > width]
    if is_contents or (gaps and _is_stretched(words)):
        gaps = []
    return Row(lines, words, gaps, top, bottom, bottom - top, is_contents)


def _is_stretched(words: list[Word]) -> bool:
    """Return whether this is justified prose: all spaces of a line are equally wide."""
    spaces = [after.left - before.right for before, after in pairwise(words)]
    if len(spaces) < 2 or max(spaces) > _EQUAL_SPACES * min(spaces):
        return False
    return 2 * sum(word.text[0].islower() for word in words) >= len(words)


def _has_leader(text: str) -> bool:
    return any(leader in text for leader in _LEADERS)
