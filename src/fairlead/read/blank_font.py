"""A TrueType font with one empty glyph, for text that is searchable but not drawn.

The glyph is a line without area: PDFium ignores upright text whose glyphs have no extent.
"""

from __future__ import annotations

import struct
from functools import cache

UNITS = 1_000  # of an em; each character is one em wide
ASCENT = 800
DESCENT = 200
_VERSION_1 = 0x00010000
_MAGIC = 0x5F0F3CF5


@cache
def blank_font() -> bytes:
    """Return the font file: the tables that an embedded font must have, in the order of names."""
    glyph = _glyph()
    tables = {
        b"glyf": glyph,
        b"head": _head(),
        b"hhea": struct.pack(">IhhhHhhhhhhhhhhhH", _VERSION_1, ASCENT, -DESCENT, 0, UNITS, 0, 0,
                             UNITS, 1, 0, 0, 0, 0, 0, 0, 0, 1),
        b"hmtx": struct.pack(">Hh", UNITS, 0),
        b"loca": struct.pack(">HH", 0, len(glyph) // 2),
        b"maxp": struct.pack(">I14H", _VERSION_1, 1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
    }  # fmt: skip
    offset = 12 + 16 * len(tables)
    directory = struct.pack(">IHHHH", _VERSION_1, len(tables), 64, 2, 16 * len(tables) - 64)
    content = b""
    for tag, table in tables.items():
        place = offset + len(content)
        directory += struct.pack(">4sIII", tag, _checksum(table), place, len(table))
        content += table + bytes(-len(table) % 4)
    return directory + content


def _glyph() -> bytes:
    box, last_point, on_curve = (0, -DESCENT, UNITS, ASCENT), 1, b"\1\1"
    contour = struct.pack(">hhhhhHH", 1, *box, last_point, 0)
    return contour + on_curve + struct.pack(">hhhh", 0, UNITS, -DESCENT, ASCENT + DESCENT)


def _head() -> bytes:
    times, box = (0, 0), (0, -DESCENT, UNITS, ASCENT)
    lowest_pixels, direction = 8, 2
    return struct.pack(
        ">IIIIHHQQhhhhHHhhh",
        *(_VERSION_1, _VERSION_1, 0, _MAGIC, 0, UNITS, *times, *box),
        *(0, lowest_pixels, direction, 0, 0),
    )


def _checksum(table: bytes) -> int:
    padded = table + bytes(-len(table) % 4)
    words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}I", padded)
    return sum(words) & 0xFFFFFFFF
