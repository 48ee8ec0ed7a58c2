"""Finds tables whose cells are separated by ruling lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from fairlead.read.page_layout import Block, Line, Ruling, Table, Word

_SNAP = 3.0  # points between lines that are meant to touch or to be the same
_MAX_RULINGS = 300  # in each direction: more are a drawing, not a table
_MIN_WIDTH = 60.0  # points: less is a drawing
_MAX_CELLS = 5_000
_LAYOUT_CHARACTERS = 800  # a cell with more belongs to a page layout
_MIN_FILLED = 0.25  # of the cells: a chart has fewer words in its grid
_MAX_LINE_WORDS = 4  # per cell, where lines of text are rows
_FULL_LINE = 0.7  # of the cells have words in a line that is a row


def take_ruled_tables(lines: list[Line], grids: list[Grid]) -> list[Block]:
    """Return the lines and tables of a page, each table at the place of its first line."""
    if not grids:
        return list(lines)
    owners = [[_owner(word, grids) for word in line.words] for line in lines]
    words: dict[int, list[Word]] = {number: [] for number in range(len(grids))}
    for line, line_owners in zip(lines, owners, strict=True):
        for word, owner in zip(line.words, line_owners, strict=True):
            if owner is not None:
                words[owner].append(word)
    tables = {
        number: table for number, grid in enumerate(grids) if (table := grid.table(words[number]))
    }
    return list(_placed(lines, owners, tables))


def _owner(word: Word, grids: list[Grid]) -> int | None:
    x, y = _centre(word)
    return next((number for number, grid in enumerate(grids) if grid.contains(x, y)), None)


def _placed(
    lines: list[Line], owners: list[list[int | None]], tables: dict[int, Table]
) -> Iterator[Block]:
    waiting = dict(tables)
    for line, line_owners in zip(lines, owners, strict=True):
        inside = {owner for owner in line_owners if owner in tables}
        for owner in sorted(inside & waiting.keys()):
            yield waiting.pop(owner)
        if not inside:
            yield line
            continue
        outside = [
            w for w, owner in zip(line.words, line_owners, strict=True) if owner not in inside
        ]
        if outside:
            yield Line(" ".join(word.text for word in outside), outside)


class Grid:
    """Ruling lines that touch each other, and the cells between them."""

    def __init__(self, horizontal: list[Ruling], vertical: list[Ruling]) -> None:
        self._horizontal = horizontal
        self._vertical = vertical
        sides = [side for line in horizontal for side in (line.left, line.right)]
        ends = [end for line in vertical for end in (line.top, line.bottom)]
        self.xs = _distinct([line.left for line in vertical] + [min(sides), max(sides)])
        self.ys = _distinct([line.top for line in horizontal] + [min(ends), max(ends)])

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom."""
        return self.xs[0], self.ys[0], self.xs[-1], self.ys[-1]

    def contains(self, x: float, y: float) -> bool:
        return self.xs[0] < x < self.xs[-1] and self.ys[0] < y < self.ys[-1]

    def table(self, words: list[Word]) -> Table | None:
        """Return the words as a table, unless the lines are a frame, a layout or a chart."""
        columns, bands = len(self.xs) - 1, len(self.ys) - 1
        if columns < 2 or columns * bands > _MAX_CELLS:
            return None
        cells: list[list[list[Word]]] = [[[] for _ in range(columns)] for _ in range(bands)]
        owners = self._owners(columns, bands)
        for word in words:
            x, y = _centre(word)
            band, column = owners[bisect_right(self.ys, y) - 1][bisect_right(self.xs, x) - 1]
            cells[band][column].append(word)
        rows = [row for band in cells for row in _band_rows(band)]
        return _as_table([[" ".join(word.text for word in cell) for cell in row] for row in rows])

    def _owners(self, columns: int, bands: int) -> list[list[tuple[int, int]]]:
        """Return for each cell the first of the cells that it is merged with."""
        owners = [[(band, column) for column in range(columns)] for band in range(bands)]
        left = [[line for line in self._vertical if _is_beside(x, line)] for x in self.xs]
        above = [[line for line in self._horizontal if _is_level(y, line)] for y in self.ys]
        for band in range(bands):
            y = (self.ys[band] + self.ys[band + 1]) / 2
            for column in range(columns):
                x = (self.xs[column] + self.xs[column + 1]) / 2
                if column and not any(_is_level(y, line) for line in left[column]):
                    owners[band][column] = owners[band][column - 1]
                elif band and not any(_is_beside(x, line) for line in above[band]):
                    owners[band][column] = owners[band - 1][column]
        return owners


def _is_beside(x: float, line: Ruling) -> bool:
    """Return whether the line is above, below or at this place."""
    return line.left - _SNAP <= x <= line.right + _SNAP


def _is_level(y: float, line: Ruling) -> bool:
    """Return whether the line is left, right or at this place."""
    return line.top - _SNAP <= y <= line.bottom + _SNAP


def _band_rows(cells: list[list[Word]]) -> Iterator[list[list[Word]]]:
    """Yield the rows between two horizontal lines: one, or one for each line of text.

    Many tables rule only their columns, or every fifth row.
    """
    starts = _row_starts(cells)
    if len(starts) < 2:
        yield cells
        return
    rows: list[list[list[Word]]] = [[[] for _ in cells] for _ in starts]
    for column, cell in enumerate(cells):
        for word in cell:
            rows[bisect_right(starts, _centre(word)[1], 1) - 1][column].append(word)
    yield from rows


def _row_starts(cells: list[list[Word]]) -> list[float]:
    """Return the tops of lines that are rows: nearly all cells have a few words in them."""
    filled = sum(map(bool, cells))
    lines = _text_lines(cells)
    if filled < 2 or sum(map(len, cells)) > _MAX_LINE_WORDS * filled * len(lines):
        return []
    full = sum(columns >= max(2, _FULL_LINE * filled) for _, columns in lines)
    # Wrapped text fills few lines; two cells may have two lines each by chance.
    if full < (2 if filled > 2 else 3) or full < _FULL_LINE * len(lines):
        return []
    return [top for top, columns in lines if columns > 1]


def _text_lines(cells: list[list[Word]]) -> list[tuple[float, int]]:
    """Return the top of each line of text, and the number of cells with words in it."""
    words = sorted(
        (word.top, word.bottom, index) for index, cell in enumerate(cells) for word in cell
    )
    lines: list[tuple[float, float, set[int]]] = []
    for top, bottom, column in words:
        if not lines or (top + bottom) / 2 > lines[-1][1]:
            lines.append((top, bottom, set()))
        lines[-1][2].add(column)
    return [(top, len(columns)) for top, _, columns in lines]


def _as_table(rows: list[list[str]]) -> Table | None:
    rows = [row for row in rows if any(row)]
    used = (
        [index for index in range(len(rows[0])) if any(row[index] for row in rows)] if rows else []
    )
    if len(used) < 2:
        return None
    rows = [[row[index] for index in used] for row in rows]
    filled = sum(bool(cell) for row in rows for cell in row)
    if filled < _MIN_FILLED * len(rows) * len(used):
        return None
    if len(rows) == 1 or any(len(cell) > _LAYOUT_CHARACTERS for row in rows for cell in row):
        return None
    return Table(rows)


def find_grids(rulings: list[Ruling]) -> list[Grid]:
    """Return the grids on a page; a grid has at least two columns."""
    horizontal = _merged(
        line for line in rulings if line.right - line.left > line.bottom - line.top
    )
    turned = [_turn(line) for line in rulings if line.right - line.left <= line.bottom - line.top]
    vertical = [_turn(line) for line in _merged(turned)]
    if not (2 <= len(horizontal) <= _MAX_RULINGS and 1 <= len(vertical) <= _MAX_RULINGS):
        return []
    grids = []
    for group in _touching(horizontal, vertical):
        across = [line for line in group if line.right > line.left]
        down = [line for line in group if line.right <= line.left]
        if len(across) >= 2:
            grids.append(Grid(across, down))
    return [grid for grid in grids if len(grid.xs) > 2 and grid.xs[-1] - grid.xs[0] > _MIN_WIDTH]


def _turn(line: Ruling) -> Ruling:
    return Ruling(line.top, line.left, line.bottom, line.right)


def _merged(lines: Iterable[Ruling]) -> list[Ruling]:
    """Join horizontal lines that continue each other; each gets one height."""
    merged: list[Ruling] = []
    levels: list[tuple[float, list[Ruling]]] = []
    for line in sorted(lines, key=lambda line: (line.top + line.bottom) / 2):
        y = (line.top + line.bottom) / 2
        if not levels or y - levels[-1][0] > _SNAP:
            levels.append((y, []))
        levels[-1][1].append(line)
    for y, level in levels:
        level.sort()
        left, right = level[0].left, level[0].right
        for line in level[1:]:
            if line.left > right + _SNAP:
                merged.append(Ruling(left, y, right, y))
                left, right = line.left, line.right
            right = max(right, line.right)
        merged.append(Ruling(left, y, right, y))
    return merged


def _touching(horizontal: list[Ruling], vertical: list[Ruling]) -> list[list[Ruling]]:
    """Return groups of lines that cross or touch."""
    groups: list[list[Ruling]] = [[line] for line in horizontal]
    for down in vertical:
        touched = [group for group in groups if any(_cross(line, down) for line in group)]
        if touched:
            others = [group for group in groups if not any(group is other for other in touched)]
            groups = [*others, [down, *(line for group in touched for line in group)]]
    return [group for group in groups if len(group) > 2]


def _cross(across: Ruling, down: Ruling) -> bool:
    return (
        across.left - _SNAP <= down.left <= across.right + _SNAP
        and down.top - _SNAP <= across.top <= down.bottom + _SNAP
        and across.right > across.left
    )


def _distinct(values: list[float]) -> list[float]:
    values.sort()
    return values[:1] + [after for before, after in pairwise(values) if after - before > _SNAP]


def _centre(word: Word) -> tuple[float, float]:
    return (word.left + word.right) / 2, (word.top + word.bottom) / 2
