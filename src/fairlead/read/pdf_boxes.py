"""The page of a PDF as shown, the places of its characters, and whether they are bold."""

from __future__ import annotations

import ctypes
import math
import re
from itertools import repeat
from typing import Any

import pypdfium2.raw as pdfium

_BOLD = re.compile(rb"bold|black|heavy|demi|CMBX|SFBX", re.I)
_MAX_FONT_NAME = 100
_ASCENT = 0.9  # of the font's size, above the baseline
_DESCENT = 0.25
_UPRIGHT = 3.0  # times the size: what is higher runs upwards
_BOX_BYTES = ctypes.sizeof(pdfium.FS_RECTF)

# A page has thousands of boxes. Addresses as plain integers halve the time of a call.
_BoxFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)

Span = tuple[int, int]  # first and last character
Box = tuple[float, float, float, float]  # left, top, right, bottom


def address(pointer: Any) -> int:
    """Return the address of a function or an object of PDFium."""
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def load_page(document: Any, index: int) -> Any:
    """Load a page of a document; one without a visible part is shown as a whole."""
    page = document[index]
    if all(page.get_size()):
        return page
    # The crop box lies outside the paper. Viewers ignore it.
    page.set_cropbox(*page.get_mediabox())
    page.close()
    return document[index]


class Characters:
    """The characters of a page, by their index in the text."""

    def __init__(self, text_page: Any, length: int, view: PageView) -> None:
        self._page = text_page.raw
        self._view = view
        # Some characters have no text.
        self._is_exact = pdfium.FPDFText_CountChars(self._page) == length
        self._font_name = ctypes.create_string_buffer(_MAX_FONT_NAME)

    def boxes(self, spans: list[Span]) -> list[Box]:
        """Return the box around the first and the last character of each span, as shown."""
        places: list[int] = [index for span in spans for index in span]
        if not self._is_exact:
            places = [self._char(index) for index in places]
        call = _BoxFunction(address(pdfium.FPDFText_GetLooseCharBox))
        floats = (ctypes.c_float * (4 * len(places)))()
        first = ctypes.addressof(floats)
        targets = range(first, first + _BOX_BYTES * len(places), _BOX_BYTES)
        for _ in map(call, repeat(address(self._page)), places, targets):
            pass
        values = iter(floats)
        show = self._view.box
        return [
            show(
                (
                    left if left < last_left else last_left,
                    top if top > last_top else last_top,
                    right if right > last_right else last_right,
                    bottom if bottom < last_bottom else last_bottom,
                )
            )
            for left, top, right, bottom, last_left, last_top, last_right, last_bottom in zip(
                *[values] * 8, strict=True
            )
        ]

    def font_box(self, index: int, box: Box) -> Box:
        """Return the box with the height of the font, which is the same for all its letters.

        PDFium knows the height of some fonts only; for others, a box is as high as its letters.
        """
        place = self._char(index)
        x, y, matrix = ctypes.c_double(), ctypes.c_double(), pdfium.FS_MATRIX()
        size = pdfium.FPDFText_GetFontSize(self._page, place)
        if not (
            pdfium.FPDFText_GetCharOrigin(self._page, place, x, y)
            and pdfium.FPDFText_GetMatrix(self._page, place, matrix)
        ):
            return box
        size *= math.hypot(matrix.c, matrix.d)
        left, top, right, bottom = box
        if size <= 0 or bottom - top > _UPRIGHT * size:
            return box
        _, baseline, _, _ = self._view.box((x.value, y.value, x.value, y.value))
        return left, baseline - _ASCENT * size, right, baseline + _DESCENT * size

    def are_bold(self, span: Span) -> bool:
        """Return whether the first and the last character are bold."""
        return all(map(self._is_bold, span))

    def _is_bold(self, index: int) -> bool:
        size = pdfium.FPDFText_GetFontInfo(
            self._page, self._char(index), self._font_name, _MAX_FONT_NAME, None
        )
        name = self._font_name.raw[: max(0, size - 1)] if size <= _MAX_FONT_NAME else b""
        return bool(_BOLD.search(name))

    def _char(self, index: int) -> int:
        if self._is_exact:
            return index
        return int(pdfium.FPDFText_GetCharIndexFromTextIndex(self._page, index))


class PageView:
    """The page as shown: its visible part, with the rotation of the document."""

    def __init__(self, page: Any) -> None:
        self._left, self._bottom, self._right, self._top = page.get_bbox()
        width, height = self._right - self._left, self._top - self._bottom
        turns = pdfium.FPDFPage_GetRotation(page)
        self._width, self._height = (height, width) if turns % 2 else (width, height)
        self.box = (self._upright, self._turned_right, self._turned_over, self._turned_left)[turns]

    def share(self, box: Box) -> Box:
        """Return the box with the width and the height of the page as units."""
        left, top, right, bottom = box
        width, height = self._width or 1.0, self._height or 1.0
        return left / width, top / height, right / width, bottom / height

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

    def shows(self, box: Box) -> bool:
        """Return whether a part of the box lies on the page."""
        left, top, right, bottom = box
        return right > 0 and left < self._width and bottom > 0 and top < self._height
