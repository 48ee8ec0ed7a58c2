"""Finds tables without ruling lines: rows whose cells are in the same columns.

Prose and lists stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile, pairwise
from statistics import mean, median

from fairlead.read.page_layout import Block, Line, Table, Word
from fairlead.read.table_rows import (
    MIN_COLUMN_GAP,
    WRAPPED_DISTANCE,
    Gap,
    Row,
    overlap,
    rows_of_lines,
    with_wrapped_rows,
)

_ROW_DISTANCE = 3.0  # between two rows, in heights of their text
_CROSSING = 0.2  # of the rows may cross a gap between columns: titles, sums
_MAX_LINES_WITHOUT_GAP = 2  # within a table, one after the other
_ROWS_COMPARED = 3  # a row with empty cells may share no gap with the one above
_PROSE_WORDS = 5.0  # in a cell
_MIN_FILLED = 0.3  # of the cells
_MIN_BESIDE = 0.3  # of the rows have cells on both sides of a gap between columns
_MIN_ROWS = 3  # fewer are a table only if they hold numbers
_MIN_NUMBERS = 0.4  # of the cells; also where all letters have one width, as in code
_MIN_WRAPPED = 2  # rows with cells of several lines, which may be prose
_SENTENCE_WORDS = 7
_MAX_ROWS = 300  # looked at together
_MAX_TRIES = 4  # to find a table in the same rows
_CONTENTS_DISTANCE = 3  # in rows
_SAME_WIDTH = 1.03
_LIST_MARK = re.compile(
    r"[^\w\s]{1,2}|[(\[]?(?:\d{1,3}(?:\.\d{1,3})*|[a-zA-Z]|[ivxIVX]{1,5})[.)\]:]*"
)


def take_aligned_tables(blocks: list[Block]) -> list[Block]:
    """Return the blocks with tables in place of the lines that form them."""
    result: list[Block] = []
    lines: list[Line] = []
    for block in [*blocks, None]:
        if isinstance(block, Line):
            lines.append(block)
            continue
        result += _in_rows(lines)
        lines = []
        if block is not None:
            result.append(block)
    return result


def _in_rows(lines: list[Line]) -> Iterator[Block]:
    """Yield tables and lines; if wrapped rows do not form a table, single lines may."""
    rows = rows_of_lines(lines)
    wrapped = with_wrapped_rows(rows)
    if len(wrapped) == len(rows):
        yield from _tables_and_lines(rows)
        return
    rest: list[Line] = []
    for block in _tables_and_lines(wrapped):
        if isinstance(block, Line):
            rest.append(block)
            continue
        yield from _tables_and_lines(rows_of_lines(rest))
        rest = []
        yield block
    yield from _tables_and_lines(rows_of_lines(rest))


def _tables_and_lines(rows: list[Row]) -> Iterator[Block]:
    start = tried = 0
    while start < len(rows):
        end = _run_end(rows, start)
        table_and_end = _table(rows, start, end) if end - start > 1 else None
        if table_and_end is not None:
            table, start = table_and_end
            tried = 0
            yield table
            continue
        # The first rows may belong to the text before a table: try without them.
        tried = tried + 1 if end > start else 0
        following = start + 1 if tried < _MAX_TRIES else max(end, start + 1)
        tried = tried if tried < _MAX_TRIES else 0
        for row in rows[start:following]:
            yield from row.lines
        start = following


def _run_end(rows: list[Row], start: int) -> int:
    """Return the end of the rows from `start` on whose gaps are below each other."""
    if not rows[start].gaps or rows[start].is_columns:
        return start
    gapped = [rows[start]]
    last = start  # the last row with gaps
    for index in range(start + 1, min(len(rows), start + _MAX_ROWS)):
        row = rows[index]
        if not row.words or row.is_contents or not _is_below(rows[index - 1], row):
            break
        if row.gaps:
            if not any(_share_gaps(above, row) for above in gapped[-_ROWS_COMPARED:]):
                break
            last = index
            gapped.append(row)
        elif index - last > _MAX_LINES_WITHOUT_GAP:
            break
    return last + 1


def _is_below(row: Row, following: Row) -> bool:
    height = max(row.height, following.height)
    return -0.5 * height < following.top - row.bottom < _ROW_DISTANCE * height


def _share_gaps(row: Row, following: Row) -> bool:
    width = MIN_COLUMN_GAP * min(row.height, following.height)
    shared = sum(any(overlap(gap, other) > width for other in row.gaps) for gap in following.gaps)
    return 2 * shared >= min(len(row.gaps), len(following.gaps))


def _table(rows: list[Row], start: int, end: int) -> tuple[Table, int] | None:
    """Return the table in the rows from `start` to `end`, and where it ends."""
    run = rows[start:end]
    columns = _column_gaps(run)
    if not columns:
        return None
    while run and _is_sentence(run[-1], columns):
        run.pop()
    cells = [_cells(row, columns) for row in run]
    if not run or not _is_tabular(run, cells) or _is_among_contents(rows, start, end, cells):
        return None
    lines = tuple(line for row in run for line in row.lines)
    return Table(list(_joined_rows(run, cells)), lines), start + len(run)


def _is_among_contents(
    rows: list[Row], start: int, end: int, cells: list[list[list[Word]]]
) -> bool:
    """Return whether these are chapters with page numbers, near entries with dots."""
    rows_around = rows[max(0, start - _CONTENTS_DISTANCE) : end + _CONTENTS_DISTANCE]
    last = [row[-1] for row in cells]
    return any(row.is_contents for row in rows_around) and all(
        len(cell) == 1 and cell[0].text.isalnum() for cell in last if cell
    )


def _is_sentence(row: Row, columns: list[Gap]) -> bool:
    """Return whether a row at the end of a table belongs to the text after it."""
    if not row.gaps:
        return True
    return len(row.words) > _SENTENCE_WORDS and any(_crosses(row, gap) for gap in columns)


def _column_gaps(run: list[Row]) -> list[Gap]:
    """Return the gaps that nearly all rows leave free, with text on both sides."""
    width = MIN_COLUMN_GAP * median(row.height for row in run)
    gapped = [row for row in run if row.gaps]
    texts = [list(_texts_of(row, width)) for row in gapped]
    return [gap for gap in _free(texts, width) if _separates(gap, gapped)]


def _free(texts: list[list[Gap]], width: float) -> Iterator[Gap]:
    """Yield the gaps that at most a few rows cover."""
    allowed = int(_CROSSING * len(texts))
    edges = sorted(
        edge for row in texts for left, right in row for edge in ((left, 1), (right, -1))
    )
    covering = 0
    free_from: float | None = None
    for x, change in edges:
        before, covering = covering, covering + change
        if before > allowed >= covering:
            free_from = x
        elif before <= allowed < covering and free_from is not None:
            if x - free_from > width:
                yield free_from, x
            free_from = None


def _separates(gap: Gap, rows: list[Row]) -> bool:
    """Return whether rows have cells on both sides of the gap, and few run across it."""
    beside = sum(any(overlap(gap, other) > 0 for other in row.gaps) for row in rows)
    crossing = sum(_crosses(row, gap) for row in rows)
    return beside >= max(2, _MIN_BESIDE * len(rows)) and crossing <= _CROSSING * (beside + crossing)


def _crosses(row: Row, gap: Gap) -> bool:
    """Return whether the text of a row runs across the gap, with no more than usual spaces."""
    if not row.words[0].left < gap[0] or not gap[1] < row.words[-1].right:
        return False
    width = row.column_gap
    spaces = ((word.right, following.left) for word, following in pairwise(row.words))
    return not any(
        right - left > width and overlap(gap, (left, right)) > 0 for left, right in spaces
    )


def _texts_of(row: Row, width: float) -> Iterator[Gap]:
    """Yield where the texts of a row begin and end; words with usual spaces are one text."""
    left, right = row.words[0].left, row.words[0].right
    for word in row.words[1:]:
        if word.left - right > width:
            yield left, right
            left = word.left
        right = max(right, word.right)
    yield left, right


def _cells(row: Row, columns: list[Gap]) -> list[list[Word]]:
    """Return the words in each column; text that runs across a gap stays together."""
    width = row.column_gap
    spaces = [(float("-inf"), row.words[0].left)]
    spaces += [(before.right, after.left) for before, after in pairwise(row.words)]
    starts: dict[int, int] = {}  # the column that begins with a word
    for column, gap in enumerate(columns, start=1):
        shares = [overlap(gap, space) if space[1] - space[0] > width else 0.0 for space in spaces]
        if shares and max(shares) > 0:
            starts[shares.index(max(shares))] = column
    cells: list[list[Word]] = [[] for _ in range(len(columns) + 1)]
    column = 0
    for index, word in enumerate(row.words):
        column = max(column, starts.get(index, 0))
        cells[column].append(word)
    return cells


def _is_tabular(run: list[Row], cells: list[list[list[Word]]]) -> bool:
    """Return whether the cells are values, and neither prose in columns nor a list nor code."""
    full_rows = [row for row in cells if sum(map(bool, row)) > 1]
    columns = len(cells[0])
    if len(full_rows) < 2:
        return False
    filled = [[cell for cell in column if cell] for column in zip(*full_rows, strict=True)]
    number = sum(map(len, filled))
    if number < _MIN_FILLED * columns * len(full_rows):
        return False
    needs_numbers = len(full_rows) < _MIN_ROWS or _is_monospaced(run)
    if needs_numbers and _numbers(filled) <= _MIN_NUMBERS * number:
        return False
    prose = sum(mean(_words(column)) > _PROSE_WORDS for column in filled)
    if prose > (columns - 1) // 2 and not (columns > 2 and _may_be_prose(run, filled)):
        return False
    return not _is_list(filled)


def _words(column: list[list[Word]]) -> list[int]:
    """Return the number of words in each cell."""
    return [sum(len(word.text.split()) for word in cell) for cell in column] or [0]


def _may_be_prose(run: list[Row], columns: list[list[list[Word]]]) -> bool:
    """Return whether cells of several lines stand beside shorter ones that are no marks of a list.

    Columns of prose are written one after the other.
    """
    if sum(row.is_wrapped for row in run) < _MIN_WRAPPED:
        return False
    return any(not _is_prose(column) for column in dropwhile(_begin_with_marks, columns))


def _is_prose(column: list[list[Word]]) -> bool:
    # Where a gap is small, a line may reach into the next cell: the median leaves it out.
    return median(_words(column)) > _PROSE_WORDS


def _is_monospaced(run: list[Row]) -> bool:
    widths = [(w.right - w.left) / len(w.text) for row in run for w in row.words if len(w.text) > 2]
    return bool(widths) and max(widths) < _SAME_WIDTH * min(widths)


def _numbers(columns: list[list[list[Word]]]) -> int:
    return sum(cell[-1].text[-1:].isdigit() for column in columns for cell in column)


def _is_list(columns: list[list[list[Word]]]) -> bool:
    """Return whether the last column has the text of items, and the others their marks."""
    *first, last = columns
    if len(first) == 1:
        return _are_marks(first[0])
    return all(map(_begin_with_marks, first)) and _is_prose(last)


def _begin_with_marks(column: list[list[Word]]) -> bool:
    return all(_LIST_MARK.fullmatch(_first_word(cell[0].text)) for cell in column)


def _first_word(text: str) -> str:
    """Return the first word; none if OCR took a rule or a picture for white space."""
    return next(iter(text.split()), "")


def _are_marks(marks: list[list[Word]]) -> bool:
    return all(len(mark) == 1 and _LIST_MARK.fullmatch(mark[0].text) for mark in marks)


def _joined_rows(run: list[Row], cells: list[list[list[Word]]]) -> Iterator[list[str]]:
    """Yield the rows; a line that continues a cell is added to the row above."""
    current: list[list[Word]] = []
    for index, row in enumerate(cells):
        if index and _is_wrapped(run[index - 1], run[index], current, row):
            current = [above + below for above, below in zip(current, row, strict=True)]
            continue
        if current:
            yield _texts(current)
        current = row
    yield _texts(current)


def _is_wrapped(above: Row, row: Row, before: list[list[Word]], cells: list[list[Word]]) -> bool:
    filled = [column for column, cell in enumerate(cells) if cell]
    if len(filled) != 1 or not before[filled[0]]:
        return False
    is_close = row.top - above.bottom < WRAPPED_DISTANCE * row.height
    return is_close and cells[filled[0]][0].text[0].islower()


def _texts(cells: list[list[Word]]) -> list[str]:
    return [" ".join(word.text for word in cell) for cell in cells]
