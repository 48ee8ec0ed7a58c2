"""Footnotes and endnotes of an old Word document: the places of their marks."""

from __future__ import annotations

import struct
from typing import NamedTuple

from fairlead.read.doc_formatting import table_part
from fairlead.read.numbering import roman

_LENGTHS = 0x4C  # of the parts of the text, in the header
_FOOTNOTES, _ENDNOTES = (0xAA, 0xB2), (0x20A, 0x212)


class NoteMark(NamedTuple):
    """The number of a note: in the text, or before the note itself."""

    label: str
    before_note: bool


def note_marks(main: bytes, table: bytes) -> dict[int, NoteMark]:
    """Return the marks of numbered notes, by the number of their character."""
    text, footnotes, headers, macros, comments = struct.unpack_from("<5I", main, _LENGTHS)
    marks: dict[int, NoteMark] = {}
    endnotes_at = text + footnotes + headers + macros + comments
    for (references, notes), start, shown in (
        (_FOOTNOTES, text, str),
        (_ENDNOTES, endnotes_at, roman),
    ):
        firsts = _numbers(table_part(main, table, notes))
        number = 0
        for index, (at, is_numbered) in enumerate(_references(table_part(main, table, references))):
            if not is_numbered:
                continue
            number += 1
            marks[at] = NoteMark(shown(number), before_note=False)
            if index < len(firsts):
                marks[start + firsts[index]] = NoteMark(shown(number), before_note=True)
    return marks


def _references(data: bytes) -> list[tuple[int, int]]:
    count = max(0, len(data) - 4) // 6
    numbered = struct.unpack_from(f"<{count}H", data, 4 * (count + 1)) if count else ()
    return list(zip(_numbers(data[: 4 * count]), numbered, strict=True))


def _numbers(data: bytes) -> tuple[int, ...]:
    count = len(data) // 4
    return struct.unpack_from(f"<{count}I", data)
