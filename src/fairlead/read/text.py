"""Plain text in any encoding, and tables in it with separated values (csv)."""

from __future__ import annotations

import csv
import io

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.decode import decode, decode_head
from fairlead.read.draft import Draft
from fairlead.read.text_writer import TextWriter

_MAX_CHARACTER_BYTES = 4
_SEPARATORS = ",;\t|"
_SAMPLE_CHARACTERS = 65_536
_SAMPLE_ROWS = 50
_MAX_MEAN_CELL = 200  # prose with commas has longer cells, or uneven rows


def _is_text(source: Source) -> bool:
    return decode_head(source.head) is not None


def _is_csv(source: Source) -> bool:
    text = decode_head(source.head)
    return text is not None and _separator(text, whole=source.size <= len(source.head)) is not None


def _read_text(source: Source, task: Task) -> Extracted:
    draft = Draft("text", library("charset-normalizer"), task.limits)
    draft.add(_decoded(source, draft))
    return draft.finish()


def _read_csv(source: Source, task: Task) -> Extracted:
    draft = Draft("csv", library("charset-normalizer"), task.limits)
    text = _decoded(source, draft)
    whole = len(text) <= _SAMPLE_CHARACTERS
    separator = _separator(text[:_SAMPLE_CHARACTERS], whole=whole) or ","
    # The library's limit of a field's size is not needed: the text as a whole is bounded.
    csv.field_size_limit(max(draft.limits.characters, 131_072))
    writer = TextWriter(draft)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            if not writer.values(row):
                break
    except csv.Error:
        draft.warn("some rows are missing: the table is damaged")
    return writer.finish()


def _decoded(source: Source, draft: Draft) -> str:
    """Decode as much text as fits into the limit, and record its encoding."""
    limit = (draft.limits.characters + 2) * _MAX_CHARACTER_BYTES
    decoded = decode(source.read(limit), cut=source.size > limit)
    draft.fact("encoding", decoded.encoding)
    if decoded.guessed:
        draft.warn(f"the encoding was guessed: {decoded.encoding}")
    return decoded.text


def _separator(text: str, *, whole: bool) -> str | None:
    """Return the character between values; None if the text is not a table."""
    lines = text.splitlines()
    lines = (lines if whole else lines[:-1])[: 4 * _SAMPLE_ROWS]
    if len(lines) < 2:
        return None
    columns, separator = max((_columns(lines, separator), separator) for separator in _SEPARATORS)
    return separator if columns > 1 else None


def _columns(lines: list[str], separator: str) -> int:
    """Return the number of columns if nearly all rows have it; otherwise 0."""
    try:
        parsed = list(csv.reader(iter(f"{line}\n" for line in lines), delimiter=separator))
    except csv.Error:
        return 0
    rows = [row for row in parsed if row][:_SAMPLE_ROWS]
    widths = [len(row) for row in rows]
    if len(rows) < 2 or min(widths[:2]) < 2:
        return 0
    usual = max(set(widths), key=widths.count)
    even = widths.count(usual) >= 0.9 * len(widths)
    short = sum(map(len, lines)) <= _MAX_MEAN_CELL * sum(widths)
    # Sentences with one comma have a blank after it.
    prose = usual == 2 and separator in ",|" and any(len(r) == 2 and r[1][:1] == " " for r in rows)
    return usual if even and short and not prose else 0


READERS = (
    Reader("csv", Rank.TABLE, _is_csv, _read_csv),
    Reader("text", Rank.ANY_TEXT, _is_text, _read_text),
)
