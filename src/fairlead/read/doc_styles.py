"""Styles and lists of an old Word document: headings, items and paragraphs in tables."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from fairlead.read.doc_formatting import properties, table_part
from fairlead.read.numbering import LEVELS, Level, ListCounter
from fairlead.read.text_writer import PLAIN, Style, heading, item

_STYLES, _LISTS, _LIST_USES = 0xA2, 0x2E2, 0x2EA  # places in the header
_LEVEL, _LIST, _OUTLINE, _IN_TABLE, _ENDS_ROW = 0x260A, 0x460B, 0x2640, 0x2416, 0x2417
_TITLES = {62: 1, 74: 2}  # built-in styles that are headings beside 1 to 9
_NO_BASE = 0xFFF
_MAX_ANCESTORS = 10  # styles may inherit in a circle
_MAX_LABEL = 60
_FORMATS = {
    0: "decimal", 1: "ROMAN", 2: "roman", 3: "LETTERS", 4: "letters", 22: "decimal-zero",
    23: "bullet", 255: "none",
}  # fmt: skip


class ParagraphRole(NamedTuple):
    """The style of a paragraph, and its place in a table."""

    style: Style = PLAIN
    in_table: bool = False
    ends_row: bool = False


class _DocStyle(NamedTuple):
    heading: int
    base: int
    properties: bytes


@dataclass(slots=True)
class _DocList:
    levels: dict[int, Level] = field(default_factory=dict)
    counter: ListCounter = field(default_factory=ListCounter)


class _ListUse(NamedTuple):
    """A list as paragraphs refer to it, and the numbers with which its levels restart."""

    list_id: int
    starts: dict[int, int]


class DocStyles:
    """Determines the role of each paragraph, in their order, as list items are counted."""

    def __init__(self, main: bytes, table: bytes) -> None:
        self._styles = list(_styles(table_part(main, table, _STYLES)))
        self._lists = _lists(main, table)
        self._uses = _list_uses(table_part(main, table, _LIST_USES))
        self._known: dict[int, tuple[dict[int, int], int]] = {}  # by the number of a style

    def next_paragraph(self, style: int, own: bytes) -> ParagraphRole:
        if style not in self._known:
            self._known[style] = self._inherited(style)
        inherited, title = self._known[style]
        values = inherited | _values(own)
        outline = values.get(_OUTLINE, 9)
        title = title or (outline + 1 if outline < 9 else 0)
        in_table, ends_row = bool(values.get(_IN_TABLE)), bool(values.get(_ENDS_ROW))
        if ends_row:
            return ParagraphRole(PLAIN, in_table, ends_row)
        return ParagraphRole(self._style(title, values), in_table)

    def _inherited(self, style: int) -> tuple[dict[int, int], int]:
        chain = []
        for _ in range(_MAX_ANCESTORS):
            if style >= len(self._styles):
                break
            chain.append(self._styles[style])
            style = chain[-1].base
        values: dict[int, int] = {}
        for ancestor in reversed(chain):
            values.update(_values(ancestor.properties))
        return values, next((ancestor.heading for ancestor in chain if ancestor.heading), 0)

    def _style(self, title: int, values: dict[int, int]) -> Style:
        use = values.get(_LIST, 0)
        if not 0 < use <= len(self._uses):
            return heading(title) if title else PLAIN
        level = min(values.get(_LEVEL, 0), LEVELS - 1)
        list_id, starts = self._uses[use - 1]
        doc_list = self._lists.setdefault(list_id, _DocList())
        if level in starts:
            doc_list.counter.restart(level, starts.pop(level))
        label = doc_list.counter.advance(level, doc_list.levels)
        return heading(title, label) if title else item(level, label=label)


def _values(data: bytes) -> dict[int, int]:
    known = (_LEVEL, _LIST, _OUTLINE, _IN_TABLE, _ENDS_ROW)
    return {
        number: int.from_bytes(value, "little")
        for number, value in properties(data)
        if number in known
    }


def _styles(data: bytes) -> Iterator[_DocStyle]:
    if len(data) < 6:
        return
    size, count, base_size = struct.unpack_from("<HHH", data)
    at = 2 + size
    for _ in range(count):
        if at + 2 > len(data):
            return
        (size,) = struct.unpack_from("<H", data, at)
        yield _named_style(data[at + 2 : at + 2 + size], base_size)
        at += 2 + size + size % 2


def _named_style(data: bytes, base_size: int) -> _DocStyle:
    if len(data) < base_size + 2 or base_size < 4:
        return _DocStyle(0, _NO_BASE, b"")
    first, second = struct.unpack_from("<HH", data)
    built_in, kind, base = first & 0xFFF, second & 15, second >> 4
    title = built_in if 1 <= built_in <= 9 else _TITLES.get(built_in, 0)
    (length,) = struct.unpack_from("<H", data, base_size)
    at = base_size + 2 + 2 * length + 2
    own = b""
    if kind == 1 and at + 4 <= len(data):  # a style of paragraphs
        (size,) = struct.unpack_from("<H", data, at)
        own = data[at + 4 : at + 2 + size]  # after the number of the style
    return _DocStyle(title, base, own)


def _lists(main: bytes, table: bytes) -> dict[int, _DocList]:
    data = table_part(main, table, _LISTS)
    lists: dict[int, _DocList] = {}
    if len(data) < 2:
        return lists
    (count,) = struct.unpack_from("<H", data)
    start, size = struct.unpack_from("<II", main, _LISTS)
    at = start + size  # the levels follow the lists
    for index in range(min(count, (len(data) - 2) // 28)):
        entry = data[2 + 28 * index : 30 + 28 * index]
        doc_list = lists[struct.unpack_from("<i", entry)[0]] = _DocList()
        for number in range(1 if entry[26] & 1 else 9):
            if at + 28 > len(table):
                return lists
            doc_list.levels[number], at = _level(table, at)
    return lists


def _level(table: bytes, at: int) -> tuple[Level, int]:
    """Return a level, and where the next one begins."""
    start, number_format, flags = struct.unpack_from("<iBB", table, at)
    at += 28 + table[at + 24] + table[at + 25]
    (length,) = struct.unpack_from("<H", table, at) if at + 2 <= len(table) else (0,)
    raw = table[at + 2 : at + 2 + 2 * min(length, _MAX_LABEL)].decode("utf-16-le", "replace")
    # A character below 9 stands for the number of a level.
    text = "".join(f"%{ord(letter) + 1}" if letter < "\t" else letter for letter in raw)
    name = _FORMATS.get(number_format, "decimal")
    level = Level(name, text, start, legal=bool(flags & 4), restarts=not flags & 8)
    return level, at + 2 + 2 * length


def _list_uses(data: bytes) -> list[_ListUse]:
    if len(data) < 4:
        return []
    (count,) = struct.unpack_from("<I", data)
    count = min(count, (len(data) - 4) // 16)
    entries = [struct.unpack_from("<i8xB", data, 4 + 16 * index) for index in range(count)]
    uses = []
    at = 4 + 16 * count
    for list_id, changes in entries:
        starts, at = _starts(data, at + 4, changes)
        uses.append(_ListUse(list_id, starts))
    return uses


def _starts(data: bytes, at: int, changes: int) -> tuple[dict[int, int], int]:
    """Return the changed first numbers by level, and where the next entry begins."""
    starts: dict[int, int] = {}
    for _ in range(changes):
        if at + 8 > len(data):
            break
        start, flags = struct.unpack_from("<iI", data, at)
        at += 8
        if flags & 0x20 and at + 28 <= len(data):  # the level looks different, too
            level, at = _level(data, at)
            start = level.start
        if flags & 0x10:
            starts[flags & 15] = start
    return starts, at
