"""Plain text in any encoding."""

from __future__ import annotations

import csv
import io

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.decode import decode, decode_head
from fairlead.read.draft import Draft
from fairlead.read.text_writer import TextWriter

_LONGEST_CHARACTER = 4


def _is_text(source: Source) -> bool:
    """Whether the first bytes are text: few control characters, and some encoding fits."""
    return decode_head(source.head) is not None


def _read_text(source: Source, task: Task) -> Extracted:
    """The text itself."""
    draft = Draft("text", library("charset-normalizer"), task.limits)
    draft.add(decoded_text(source, draft))
    return draft.finish()


def decoded_text(source: Source, draft: Draft) -> str:
    """As much of the text as the limit may need; the encoding becomes a fact."""
    limit = (draft.limits.characters + 2) * _LONGEST_CHARACTER
    decoded = decode(source.read(limit), cut=source.size > limit)
    draft.fact("encoding", decoded.encoding)
    if decoded.guessed:
        draft.warn(f"the encoding was guessed: {decoded.encoding}")
    return decoded.text


_SEPARATORS = ",;\t|"
_ROWS_LOOKED_AT = 50
_LONGEST_CELL = 200  # on average: prose with commas has longer ones, or uneven rows


def _is_csv(source: Source) -> bool:
    """Whether the first lines are rows of one width, two at least."""
    text = decode_head(source.head)
    return text is not None and _separator(text, whole=source.size <= len(source.head)) is not None


def _read_csv(source: Source, task: Task) -> Extracted:
    """The rows, their cells parted by tabs."""
    draft = Draft("csv", library("charset-normalizer"), task.limits)
    text = decoded_text(source, draft)
    separator = _separator(text[:65_536], whole=len(text) <= 65_536) or ","
    # Its own limit is there for the memory of others; ours bounds the whole text already.
    csv.field_size_limit(max(draft.limits.characters, 131_072))
    writer = TextWriter(draft)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            if not writer.values(row):
                break
    except csv.Error:
        draft.warn("some rows are missing: the table is damaged")
    writer.close()
    return draft.finish()


def _separator(text: str, *, whole: bool) -> str | None:
    """What parts the values; None where the text is no table."""
    lines = text.splitlines()
    lines = (lines if whole else lines[:-1])[: 4 * _ROWS_LOOKED_AT]
    if len(lines) < 2:
        return None
    fitting = [(_width(lines, separator), separator) for separator in _SEPARATORS]
    width, separator = max(fitting)
    return separator if width > 1 else None


def _width(lines: list[str], separator: str) -> int:
    """The number of columns where all rows have as many; else 0."""
    try:
        found = list(csv.reader(iter(f"{line}\n" for line in lines), delimiter=separator))
    except csv.Error:
        return 0
    rows = [row for row in found if row][:_ROWS_LOOKED_AT]
    widths = [len(row) for row in rows]
    if len(rows) < 2 or min(widths[:2]) < 2:
        return 0
    usual = max(set(widths), key=widths.count)
    even = widths.count(usual) >= 0.9 * len(widths)
    short = sum(map(len, lines)) <= _LONGEST_CELL * sum(widths)
    prose = usual == 2 and separator in ",|" and not _is_table_of_two(rows)
    return usual if even and short and not prose else 0


def _is_table_of_two(rows: list[list[str]]) -> bool:
    """Whether rows with one comma are values, not sentences: no blank after the comma."""
    return all(not row[1].startswith(" ") for row in rows if len(row) == 2)


READERS = (
    Reader("csv", Rank.TABLE, _is_csv, _read_csv),
    Reader("text", Rank.ANY_TEXT, _is_text, _read_text),
)
