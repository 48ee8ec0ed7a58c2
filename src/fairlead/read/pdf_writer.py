"""Writes a PDF: pages with a picture, or with text that is searchable but not drawn."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from fairlead.read.blank_font import ASCENT, DESCENT, UNITS, blank_font

_HEADER = b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n"
_CODES = 65_536  # UTF-16 units: each is a character of the font
_TO_UNICODE = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CIDSystemInfo <</Registry (Adobe) /Ordering (UCS) /Supplement 0>> def
/CMapName /Adobe-Identity-UCS def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0000> <FFFF> <0000> endbfrange
endcmap CMapName currentdict /CMap defineresource pop end end
"""


class Picture(NamedTuple):
    """An image as a PDF has it: its size in pixels, its attributes and its bytes."""

    width: int
    height: int
    attributes: bytes
    content: bytes


class PdfWriter:
    """Collects the objects of a PDF; `size` is their number of bytes."""

    def __init__(self) -> None:
        self._content = bytearray(_HEADER)
        self._places: list[int] = []
        self._pages: list[int] = []
        self._tree = self._reserve()
        self._font: int | None = None

    @property
    def size(self) -> int:
        return len(self._content)

    def add_page(
        self, box: tuple[float, ...], content: bytes, picture: Picture | None = None
    ) -> None:
        """Add a page; its content names the picture /I and the font /F."""
        objects = b""
        if picture is not None:
            size = b"/Width %d /Height %d" % (picture.width, picture.height)
            attributes = b"/Type /XObject /Subtype /Image %s %s" % (size, picture.attributes)
            objects = b"/XObject <</I %d 0 R>>" % self._stream(attributes, picture.content)
        drawn = self._stream(b"/Filter /FlateDecode", zlib.compress(content))
        sides = " ".join(f"{side:.2f}" for side in box).encode()
        self._pages.append(
            self._add(
                b"<</Type /Page /Parent %d 0 R /MediaBox [%s] /Contents %d 0 R"
                b" /Resources <</Font <</F %d 0 R>> %s>>>>"
                % (self._tree, sides, drawn, self._used_font(), objects)
            )
        )

    def finish(self) -> bytes:
        pages = b" ".join(b"%d 0 R" % page for page in self._pages)
        self._put(self._tree, b"<</Type /Pages /Kids [%s] /Count %d>>" % (pages, len(self._pages)))
        root = self._add(b"<</Type /Catalog /Pages %d 0 R>>" % self._tree)
        start = len(self._content)
        entries = b"".join(b"%010d 00000 n \n" % place for place in self._places)
        count = len(self._places) + 1
        self._content += b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, entries)
        self._content += b"trailer <</Size %d /Root %d 0 R>>\n" % (count, root)
        self._content += b"startxref\n%d\n%%%%EOF\n" % start
        return bytes(self._content)

    def _used_font(self) -> int:
        """Return the font, which all pages share."""
        if self._font is None:
            self._font = self._add_font()
        return self._font

    def _add_font(self) -> int:
        flate = b"/Filter /FlateDecode"
        file = self._stream(flate, zlib.compress(blank_font()))
        # All characters have the one glyph.
        glyphs = self._stream(flate, zlib.compress(bytes(2 * _CODES)))
        to_unicode = self._stream(flate, zlib.compress(_TO_UNICODE))
        descriptor = self._add(
            b"<</Type /FontDescriptor /FontName /Blank /Flags 5 /ItalicAngle 0 /StemV 80"
            b" /FontBBox [0 0 %d %d] /Ascent %d /Descent -%d /CapHeight %d /FontFile2 %d 0 R>>"
            % (UNITS, UNITS, ASCENT, DESCENT, ASCENT, file)
        )
        characters = self._add(
            b"<</Type /Font /Subtype /CIDFontType2 /BaseFont /Blank /DW %d"
            b" /CIDSystemInfo <</Registry (Adobe) /Ordering (Identity) /Supplement 0>>"
            b" /FontDescriptor %d 0 R /CIDToGIDMap %d 0 R>>" % (UNITS, descriptor, glyphs)
        )
        return self._add(
            b"<</Type /Font /Subtype /Type0 /BaseFont /Blank /Encoding /Identity-H"
            b" /DescendantFonts [%d 0 R] /ToUnicode %d 0 R>>" % (characters, to_unicode)
        )

    def _stream(self, attributes: bytes, content: bytes) -> int:
        head = b"<<%s /Length %d>>" % (attributes, len(content))
        return self._add(b"%s stream\n%s\nendstream" % (head, content))

    def _add(self, body: bytes) -> int:
        number = self._reserve()
        self._put(number, body)
        return number

    def _reserve(self) -> int:
        self._places.append(0)
        return len(self._places)

    def _put(self, number: int, body: bytes) -> None:
        self._places[number - 1] = len(self._content)
        self._content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
