"""Compound files as old Office wrote them, small and made here."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

Tree = dict[str, "bytes | Tree"]

_SECTOR = 512
_END, _FREE, _FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD


def compound(tree: Tree) -> bytes:
    """A compound file with these streams and, as nested dicts, storages."""
    entries: list[list[object]] = [["Root Entry", 5, _FREE, _FREE, _END, b""]]
    _add(tree, entries, 0)
    sectors: list[bytes] = []
    fat: list[int] = []
    for entry in entries:
        content = entry[5]
        assert isinstance(content, bytes)
        if entry[1] == 2 and content:
            # Short streams would belong into the mini stream: these are long.
            entry[5] = content = content.ljust(4_096, b"\0")
            entry[4] = len(sectors)
            _chain(content, sectors, fat)
    directory = b"".join(map(_entry, entries))
    start = len(sectors)
    _chain(directory.ljust(-(-len(directory) // _SECTOR) * _SECTOR, b"\0"), sectors, fat)
    count = 1
    while (len(sectors) + count) * 4 > count * _SECTOR:
        count += 1
    places = list(range(len(sectors), len(sectors) + count))
    fat += [_FAT] * count
    table = struct.pack(f"<{len(fat)}I", *fat).ljust(count * _SECTOR, b"\xff")
    header = struct.pack(
        "<8s16sHHHHH6xIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"", 62, 3, 0xFFFE, 9, 6,
        0, count, start, 0, 4_096, _END, 0, _END, 0,
    )  # fmt: skip
    header += struct.pack("<109I", *places, *[_FREE] * (109 - count))
    return header + b"".join(sectors) + table


def _add(tree: Tree, entries: list[list[object]], parent: int) -> None:
    previous = 0
    for name, content in tree.items():
        number = len(entries)
        is_storage = isinstance(content, dict)
        entries.append(
            [name, 1 if is_storage else 2, _FREE, _FREE, _END, b"" if is_storage else content]
        )
        entries[previous or parent][2 if previous else 3] = number
        previous = number
        if isinstance(content, dict):
            _add(content, entries, number)


def _entry(entry: list[object]) -> bytes:
    name, kind, right, child, start, content = entry
    raw = (str(name) + "\0").encode("utf-16-le")
    assert isinstance(content, bytes)
    return struct.pack(
        "<64sHBBIII16xI8x8xIQ",
        raw, len(raw), kind, 1, _FREE, right, child, 0, start, len(content),
    )  # fmt: skip


def _chain(content: bytes, sectors: list[bytes], fat: list[int]) -> None:
    count = -(-len(content) // _SECTOR)
    first = len(sectors)
    for index in range(count):
        sectors.append(content[index * _SECTOR : (index + 1) * _SECTOR].ljust(_SECTOR, b"\0"))
        fat.append(first + index + 1 if index + 1 < count else _END)


def record(kind: int, content: bytes = b"", *, head: int = 0) -> bytes:
    """A record of PowerPoint."""
    return struct.pack("<HHI", head, kind, len(content)) + content


def biff(kind: int, content: bytes = b"") -> bytes:
    """A record of Excel."""
    return struct.pack("<HH", kind, len(content)) + content


Run = tuple[int, int, bytes]  # first and last character, properties
_CHARACTERS, _PARAGRAPHS, _PIECES = 0x00FA, 0x0102, 0x01A2  # places in the header of Word


def word_document_streams(
    text: str,
    *,
    flags: int = 0x200,
    runs: Sequence[Run] = (),
    paragraphs: Sequence[bytes] = (),
    tables: Mapping[int, bytes] = MappingProxyType({}),
    lengths: Sequence[int] = (),
) -> Tree:
    """The streams of a Word document of one piece.

    `runs` have properties of characters; `paragraphs` has those of each paragraph, which begin
    with the number of a style; `tables` go to these places of the header; `lengths` are those of
    the text, its footnotes and so on.
    """
    raw = text.encode("utf-16-le")
    start = 0x400
    length = len(raw) // 2
    main = bytearray(start) + raw
    struct.pack_into("<HH6xH", main, 0, 0xA5EC, 0x00C1, flags)
    struct.pack_into(f"<{len(lengths)}I", main, 0x4C, *lengths)
    clx = struct.pack("<BIII", 2, 16, 0, length) + struct.pack("<HIH", 0, start, 0)
    parts = {_PIECES: clx, **tables}
    ends = struct.pack("<II", start, start + 2 * length)
    if runs:
        parts[_CHARACTERS] = ends + struct.pack("<I", _add_page(main, start, runs, 1))
    if paragraphs:
        units = "".join(map(chr, struct.unpack(f"<{length}H", raw)))
        marks = [match.end() for match in re.finditer("[\r\x07]", units)]
        spans = zip([0, *marks], marks, paragraphs, strict=False)
        page = _add_page(main, start, list(spans), 13)
        parts[_PARAGRAPHS] = ends + struct.pack("<I", page)
    table = b""
    for place, content in parts.items():
        size = LIST_BYTES if place == LISTS else len(content)
        struct.pack_into("<II", main, place, len(table), size)
        table += content
    return {"WordDocument": bytes(main), "1Table": table}


LISTS, LIST_BYTES = 0x02E2, 30  # one list; its levels follow


def _add_page(main: bytearray, start: int, runs: Sequence[Run], entry: int) -> int:
    """Append a page with properties, whose entries have so many bytes; return its number."""
    main += bytes(-len(main) % _SECTOR)
    page = bytearray(_SECTOR)
    places = [start + 2 * first for first, _, _ in runs] + [start + 2 * runs[-1][1]]
    struct.pack_into(f"<{len(places)}I", page, 0, *places)
    at = 320
    for index, (_, _, content) in enumerate(runs):
        if content:
            sized = _sized(content, in_words=entry > 1)
            page[4 * len(places) + entry * index] = at // 2
            page[at : at + len(sized)] = sized
            at += len(sized) + len(sized) % 2
    page[-1] = len(runs)
    main += page
    return len(main) // _SECTOR - 1


def _sized(content: bytes, *, in_words: bool) -> bytes:
    """Properties after their size, which includes itself if it is in words."""
    if not in_words:
        return bytes([len(content)]) + content
    words, is_odd = divmod(len(content), 2)
    return (bytes([words + 1]) if is_odd else bytes([0, words])) + content


def word_styles(*styles: tuple[int, int, bytes]) -> bytes:
    """Styles of paragraphs: which built-in one each is, its base, and its properties."""
    data = struct.pack("<HHH", 4, len(styles), 10)
    for built_in, base, content in styles:
        name = struct.pack("<H", 1) + "x\0".encode("utf-16-le")
        body = struct.pack("<HHHHH", built_in, base << 4 | 1, 2, 0, 0) + name
        body += struct.pack("<HH", 2 + len(content), 0) + content
        data += struct.pack("<H", len(body)) + body + bytes(len(body) % 2)
    return data


def word_list(key: int, *levels: tuple[int, str]) -> bytes:
    """A list: its levels have the number of a format and a text with \\0, \\1 for numbers."""
    data = struct.pack("<Hii", 1, key, 0) + bytes(20)
    for number in range(9):
        shown, text = levels[number] if number < len(levels) else (255, "")
        data += struct.pack("<iB23x", 1, shown)
        data += struct.pack("<H", len(text)) + text.encode("utf-16-le")
    return data


def word_document(text: str, **more: Any) -> bytes:
    """A Word document of one piece; `word_document_streams` has the options."""
    return compound(word_document_streams(text, **more))


def workbook_stream(*rows: tuple[str | float, ...]) -> bytes:
    """The records of an old workbook with one sheet."""
    sheet = biff(0x0809, struct.pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 0))
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            place = struct.pack("<HHH", number, column, 0)
            if isinstance(value, str):
                raw = value.encode("utf-16-le")
                text = struct.pack("<HB", len(value), 1) + raw
                sheet += biff(0x0204, place + text)
            else:
                sheet += biff(0x0203, place + struct.pack("<d", value))
    sheet += biff(0x000A)
    start = biff(0x0809, struct.pack("<HHHHII", 0x0600, 0x0005, 0, 0, 0, 0))
    start += biff(0x0042, struct.pack("<H", 1200))
    name = b"\x05\x00Sales"
    end = biff(0x000A)
    at = len(start) + 4 + 6 + len(name) + len(end)
    listed = biff(0x0085, struct.pack("<IH", at, 0) + name)
    return start + listed + end + sheet


def workbook(*rows: tuple[str | float, ...]) -> bytes:
    """An old workbook with one sheet."""
    return compound({"Workbook": workbook_stream(*rows)})


def sheet_of_excel_4(*values: str | float) -> bytes:
    """One row as Excel 4 wrote it: a sheet is the whole file, without a container."""
    data = biff(0x0409, struct.pack("<HHH", 0, 0x0010, 0)) + biff(0x0042, struct.pack("<H", 1252))
    for column, value in enumerate(values):
        place = struct.pack("<HHH", 0, column, 0)
        if isinstance(value, str):
            raw = value.encode("cp1252")
            data += biff(0x0204, place + struct.pack("<H", len(raw)) + raw)
        else:
            data += biff(0x0203, place + struct.pack("<d", value))
    return data + biff(0x000A)


def presentation(*slides: tuple[str, str]) -> bytes:
    """An old presentation; each slide has a title in the outline and a text of its own."""
    data = b""
    places = {}
    listed = b""
    for number, (title, text) in enumerate(slides, start=2):
        places[number] = len(data)
        box = record(0xF00D, record(3998, struct.pack("<I", 0)), head=15)
        own = record(0xF00D, record(4000, text.encode("utf-16-le")), head=15)
        data += record(1006, record(1036, box + own, head=15), head=15)
        listed += record(1011, struct.pack("<IIIII", number, 0, 1, 255 + number, 0))
        listed += record(3999, struct.pack("<I", 0)) + record(4008, title.encode("latin-1"))
    places[1] = len(data)
    data += record(1000, record(4080, listed, head=15), head=15)
    persist = len(data)
    ordered = [places[key] for key in sorted(places)]
    data += record(6002, struct.pack(f"<I{len(ordered)}I", len(ordered) << 20 | 1, *ordered))
    edit = len(data)
    data += record(4085, struct.pack("<IIIIIII", 0, 0, 0, persist, 1, len(ordered), 0))
    user = record(4086, struct.pack("<IIII", 20, 0xE391C05F, edit, 0))
    return compound({"PowerPoint Document": data, "Current User": user})
