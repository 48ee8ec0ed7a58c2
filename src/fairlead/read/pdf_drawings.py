"""The drawings of a PDF page: ruling lines, as thin rectangles or strokes, and pictures."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from fairlead.read.page_layout import Ruling
from fairlead.read.pdf_boxes import Box, PageView, address

_MAX_OBJECTS = 5_000  # looked at on a page
_MAX_SEGMENTS = 5_000
_MAX_THICKNESS = 2.5  # points
_MIN_LENGTH = 8.0  # shorter ones belong to drawings

_PointerFunction = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_TypeFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class DrawnObjects(NamedTuple):
    """The paths and the pictures that a page draws."""

    paths: list[Any]
    pictures: list[Any]


def drawn_objects(page: Any) -> DrawnObjects:
    """Return the first paths and pictures of a page, without those within forms."""
    raw = page.raw
    drawn = DrawnObjects([], [])
    by_type = {pdfium.FPDF_PAGEOBJ_PATH: drawn.paths, pdfium.FPDF_PAGEOBJ_IMAGE: drawn.pictures}
    # Plain integers as in pdf_boxes: most objects are text, and there may be thousands.
    get_object = _PointerFunction(address(pdfium.FPDFPage_GetObject))
    get_type = _TypeFunction(address(pdfium.FPDFPageObj_GetType))
    page_address = address(raw)
    for index in range(min(pdfium.FPDFPage_CountObjects(raw), _MAX_OBJECTS)):
        pointer = get_object(page_address, index)
        objects = by_type.get(get_type(pointer)) if pointer else None
        if objects is not None:
            objects.append(ctypes.cast(pointer, pdfium.FPDF_PAGEOBJECT))
    return drawn


def object_box(page_object: Any) -> Box | None:
    """Return the box around an object."""
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(page_object, left, bottom, right, top):
        return None
    return left.value, top.value, right.value, bottom.value


def page_rulings(paths: list[Any], view: PageView) -> list[Ruling]:
    """Return the ruling lines of the page as it is shown."""
    segments = _MAX_SEGMENTS
    rulings: list[Ruling] = []
    for path in paths:
        count = pdfium.FPDFPath_CountSegments(path)
        segments -= max(count, 1)
        if segments < 0:
            break
        rulings += [Ruling(*view.box(box)) for box in _lines(path, count)]
    return rulings


def _lines(path: Any, segments: int) -> Iterator[Box]:
    box = object_box(path)
    if box is None:
        return
    if _is_line(box):
        yield box
    elif segments >= 4 and _is_stroked(path):
        for edge in _edges(box) if segments <= 6 else _straight_segments(path, segments):
            if _is_line(edge):
                yield edge


def _is_line(box: Box) -> bool:
    left, top, right, bottom = box
    shorter, longer = sorted((right - left, top - bottom))
    return shorter <= _MAX_THICKNESS and longer >= _MIN_LENGTH


def _is_stroked(path: Any) -> bool:
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    return bool(pdfium.FPDFPath_GetDrawMode(path, fill, stroke) and stroke.value)


def _edges(box: Box) -> Iterator[Box]:
    left, top, right, bottom = box
    yield left, top, right, top
    yield left, bottom, right, bottom
    yield left, top, left, bottom
    yield right, top, right, bottom


def _straight_segments(path: Any, segments: int) -> Iterator[Box]:
    """Yield the pieces of a path, such as a whole grid in one stroke."""
    matrix = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(path, matrix):
        return
    x, y = ctypes.c_float(), ctypes.c_float()
    before = (0.0, 0.0)
    for index in range(segments):
        segment = pdfium.FPDFPath_GetPathSegment(path, index)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        now = (
            matrix.a * x.value + matrix.c * y.value + matrix.e,
            matrix.b * x.value + matrix.d * y.value + matrix.f,
        )
        if pdfium.FPDFPathSegment_GetType(segment) == pdfium.FPDF_SEGMENT_LINETO:
            xs, ys = sorted((before[0], now[0])), sorted((before[1], now[1]))
            yield xs[0], ys[1], xs[1], ys[0]
        before = now
