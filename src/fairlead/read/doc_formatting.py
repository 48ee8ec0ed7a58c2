"""The formatting in an old Word document: properties of runs and paragraphs, by their place.

Properties are stored in pages of 512 bytes. A table of pages tells for which bytes of the text each
applies; within a page, a table tells the same for each run or paragraph.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

_PAGE = 512
_RUN_BYTES, _PARAGRAPH_BYTES = 1, 13  # of an entry in a page
_PAGE_NUMBER = 0x3FFFFF
_SIZES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}  # of an operand, by the kind of its property
_TABLE_DEFINITION, _TABS = 0xD608, 0xC615
_LONG_TABS = 255
_DELETED = 0x0800


def table_part(main: bytes, table: bytes, header_offset: int) -> bytes:
    """Return the part of the table stream that the header locates at this offset."""
    at, size = struct.unpack_from("<II", main, header_offset)
    return table[at : at + size]


def properties(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the operand of each property in a list."""
    at = 0
    while at + 2 <= len(data):
        (number,) = struct.unpack_from("<H", data, at)
        at += 2
        size = _SIZES.get(number >> 13)
        if size is None:
            if at + 2 > len(data) or (number == _TABS and data[at] == _LONG_TABS):
                return
            wide = number == _TABLE_DEFINITION
            size = 1 + struct.unpack_from("<H", data, at)[0] if wide else 1 + data[at]
        yield number, data[at : at + size]
        at += size


class _PageTable:
    """The pages with the properties of runs, or those of paragraphs."""

    def __init__(self, main: bytes, table: bytes, header_offset: int) -> None:
        self._main = main
        entries = table_part(main, table, header_offset)
        count = max(0, len(entries) - 4) // 8
        self.starts = struct.unpack_from(f"<{count + 1}I", entries) if count else ()
        numbers = struct.unpack_from(f"<{count}I", entries, 4 * (count + 1)) if count else ()
        self.pages = [number & _PAGE_NUMBER for number in numbers]

    def page(self, number: int) -> bytes:
        return self._main[number * _PAGE : (number + 1) * _PAGE]

    def page_at(self, place: int) -> bytes:
        """Return the page with the properties of a byte of the text."""
        index = bisect_right(self.starts, place) - 1
        return self.page(self.pages[index]) if 0 <= index < len(self.pages) else b""


def _places(page: bytes, entry_bytes: int) -> tuple[int, ...]:
    """Return the starts of the runs of a page and the end of the last; none if it is damaged."""
    if len(page) < _PAGE or 4 + page[-1] * (4 + entry_bytes) >= _PAGE:
        return ()
    return struct.unpack_from(f"<{page[-1] + 1}I", page)


class Formatting:
    """Looks up deleted text, and the properties of a paragraph."""

    def __init__(self, main: bytes, table: bytes) -> None:
        self._characters = _PageTable(main, table, 0xFA)
        self._paragraphs = _PageTable(main, table, 0x102)
        self._page = b""
        self._places: tuple[int, ...] = ()

    @property
    def has_paragraphs(self) -> bool:
        """Whether the document has properties of paragraphs."""
        return bool(self._paragraphs.pages)

    def deleted(self) -> list[tuple[int, int]]:
        """Return the places of text that a tracked change deletes: sorted, without overlaps."""
        merged: list[tuple[int, int]] = []
        for start, end in sorted(self._deleted_runs()):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def _deleted_runs(self) -> Iterator[tuple[int, int]]:
        for number in dict.fromkeys(self._characters.pages):
            page = self._characters.page(number)
            places = _places(page, _RUN_BYTES)
            for index, (start, end) in enumerate(pairwise(places)):
                at = 2 * page[4 * len(places) + index]
                run = page[at + 1 : at + 1 + page[at]] if at else b""
                if any(number == _DELETED and value == b"\1" for number, value in properties(run)):
                    yield start, end

    def paragraph(self, place: int) -> tuple[int, bytes]:
        """Return the style's number and the own properties of the paragraph around a byte."""
        if not self._places or not self._places[0] <= place < self._places[-1]:
            # The next paragraphs are mostly in the same page.
            self._page = self._paragraphs.page_at(place)
            self._places = _places(self._page, _PARAGRAPH_BYTES)
        page, places = self._page, self._places
        index = bisect_right(places, place) - 1
        if not 0 <= index < len(places) - 1:
            return 0, b""
        at = 2 * page[4 * len(places) + _PARAGRAPH_BYTES * index]
        if not at:
            return 0, b""
        # The size is in words; 0 stands for a longer form.
        size = 2 * page[at] - 1 if page[at] else 2 * page[at + 1]
        start = at + (1 if page[at] else 2)
        content = page[start : start + size]
        return (
            (struct.unpack_from("<H", content)[0], content[2:]) if len(content) >= 2 else (0, b"")
        )
