"""The text of a PDF page in lines, with the box of each word, from PDFium."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice, repeat
from typing import Any

import pypdfium2.raw as pdfium

from fairlead.read.page_layout import Line, Word
from fairlead.read.pdf_hyphens import LINE_HYPHEN

_LINE_BREAK = re.compile(rf"\r?\n|\r|(?<={LINE_HYPHEN})")
_WORD = re.compile(r"\S+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOUCHING = 0.15  # of the height: letters with a smaller distance belong to one word
_KERNING = 0.5  # of the height: by so much, letters of one word overlap
_SMALLER = 0.9  # raised letters have less than this share of the usual height
_SAME_LINE = 0.3  # of the height: what overlaps more is not a line further down
_BOX_BYTES = ctypes.sizeof(pdfium.FS_RECTF)

# A page has thousands of boxes. Addresses as plain integers halve the time of a call.
_BoxFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)

Span = tuple[int, int]  # first and last character
Box = tuple[float, float, float, float]  # left, top, right, bottom, as PDFium returns them


def page_lines(page: Any) -> list[Line]:
    """Return the lines on the page, in the order in which the document draws them."""
    with closing(page.get_textpage()) as text_page:
        text = _utf16_units(text_page.get_text_range())
        pieces = [(piece, _word_spans(piece, start)) for start, piece in _split_lines(text)]
        boxes = _word_boxes(text_page, len(text), [span for _, spans in pieces for span in spans])
    view = _View(page)
    lines = (_line(piece, map(view.box, islice(boxes, len(spans)))) for piece, spans in pieces)
    return _join_raised([line for line in lines if view.shows(line)])


def plain_text(lines: list[Line]) -> str:
    """Return the text of the page; hyphens at line ends stay marked until the document ends."""
    return "\n".join(line.text for line in lines).replace(f"{LINE_HYPHEN}\n", LINE_HYPHEN)


def _utf16_units(text: str) -> str:
    """Return one character for each UTF-16 unit, as PDFium counts."""
    if max(text, default="") <= "\uffff":
        return text
    return "".join(map(chr, memoryview(text.encode("utf-16-le")).cast("H")))


def _whole_characters(units: str) -> str:
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _split_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the start and the text of each line."""
    start = 0
    for line_break in _LINE_BREAK.finditer(text):
        yield start, text[start : line_break.start()]
        start = line_break.end()
    yield start, text[start:]


def _word_spans(piece: str, start: int) -> list[Span]:
    return [(start + word.start(), start + word.end() - 1) for word in _WORD.finditer(piece)]


def _word_boxes(text_page: Any, length: int, spans: list[Span]) -> Iterator[Box]:
    """Yield the box around the first and the last character of each word."""
    raw = text_page.raw
    places: list[int] = [index for span in spans for index in span]
    if pdfium.FPDFText_CountChars(raw) != length:  # some characters have no text
        to_char = pdfium.FPDFText_GetCharIndexFromTextIndex
        places = [to_char(raw, index) for index in places]
    call = _BoxFunction(_address(pdfium.FPDFText_GetLooseCharBox))
    floats = (ctypes.c_float * (4 * len(places)))()
    first = ctypes.addressof(floats)
    targets = range(first, first + _BOX_BYTES * len(places), _BOX_BYTES)
    for _ in map(call, repeat(_address(raw)), places, targets):
        pass
    values = iter(floats)
    return map(_around, zip(*[values] * 8, strict=True))


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def _around(values: tuple[float, ...]) -> Box:
    left, top, right, bottom, last_left, last_top, last_right, last_bottom = values
    return (
        left if left < last_left else last_left,
        top if top > last_top else last_top,
        right if right > last_right else last_right,
        bottom if bottom < last_bottom else last_bottom,
    )


class _View:
    """The page as it is shown: its visible part, turned as the document says."""

    def __init__(self, page: Any) -> None:
        self._left, self._bottom, self._right, self._top = page.get_bbox()
        width, height = self._right - self._left, self._top - self._bottom
        turns = pdfium.FPDFPage_GetRotation(page)
        self._width, self._height = (height, width) if turns % 2 else (width, height)
        self.box = (self._upright, self._turned_right, self._turned_over, self._turned_left)[turns]

    def _upright(self, box: Box) -> Box:
        left, top, right, bottom = box
        return left - self._left, self._top - top, right - self._left, self._top - bottom

    def _turned_right(self, box: Box) -> Box:
        left, top, right, bottom = box
        return bottom - self._bottom, left - self._left, top - self._bottom, right - self._left

    def _turned_over(self, box: Box) -> Box:
        left, top, right, bottom = box
        return self._right - right, bottom - self._bottom, self._right - left, top - self._bottom

    def _turned_left(self, box: Box) -> Box:
        left, top, right, bottom = box
        return self._top - top, self._right - right, self._top - bottom, self._right - left

    def shows(self, line: Line) -> bool:
        """Return whether a part of the line lies on the page; text beside it is not seen."""
        return not line.words or any(
            word.right > 0
            and word.left < self._width
            and word.bottom > 0
            and word.top < self._height
            for word in line.words
        )


def _line(text: str, boxes: Iterable[Box]) -> Line:
    if not text.isascii() and _SURROGATE.search(text):
        text = _whole_characters(text)
    words = zip(_WORD.findall(text), boxes, strict=True)
    return Line(text, [Word(word, *box) for word, box in words])


def _join_raised(lines: list[Line]) -> list[Line]:
    """Join what PDFium takes for lines of their own: raised and lowered letters within a word."""
    joined: list[Line] = []
    for line in lines:
        if joined and _continues(joined[-1], line):
            joined[-1] = _joined(joined[-1], line)
        else:
            joined.append(line)
    return joined


def _continues(line: Line, following: Line) -> bool:
    if not line.words or not following.words:
        return False
    last, first = line.words[-1], following.words[0]
    # Two numbers side by side are two numbers: cells of a table, or a power of ten.
    if last.text[-1].isdigit() and first.text[0].isdigit():
        return False
    height, following_height = last.bottom - last.top, first.bottom - first.top
    if len(line.words) == 1 and height < _SMALLER * following_height:
        return False  # the number of a footnote, before its text
    lower = min(height, following_height)
    overlap = min(last.bottom, first.bottom) - max(last.top, first.top)
    gap = first.left - last.right
    return overlap > _SAME_LINE * lower and -_KERNING * lower < gap < _TOUCHING * lower


def _joined(line: Line, following: Line) -> Line:
    last, first = line.words[-1], following.words[0]
    word = Word(
        last.text + first.text,
        last.left,
        min(last.top, first.top),
        first.right,
        max(last.bottom, first.bottom),
    )
    text = line.text.rstrip() + following.text.lstrip()
    return Line(text, [*line.words[:-1], word, *following.words[1:]])
