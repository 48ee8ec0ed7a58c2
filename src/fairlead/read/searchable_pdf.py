"""A copy of a PDF in which the text of scanned pages is searchable.

PDFium adds the text that OCR recognised to the pages that have none. Nothing else is changed.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from fairlead.read.base import Source
from fairlead.read.pdf_boxes import Box, load_page
from fairlead.read.pdf_writer import PdfWriter
from fairlead.read.text_layer import TextLayer, Transform

_DEVICE = 1 << 20  # units of the page's width and height, which PDFium takes as whole numbers


class PlacedLayer(NamedTuple):
    """A text layer and the part of the page that its picture shows, with the page as 1 × 1."""

    layer: TextLayer
    box: Box = (0.0, 0.0, 1.0, 1.0)


class SearchableCopy:
    """Collects the text layers of a PDF's pages."""

    def __init__(self, source: Source, password: str | None) -> None:
        self._source = source
        self._password = password
        self._copy: Any = None  # opened again, as the reader flattens the fields of its document

    def add(self, index: int, layers: Sequence[PlacedLayer]) -> None:
        """Add text to a page."""
        if self._copy is None:
            self._copy = pypdfium2.PdfDocument(self._source.path, password=self._password)
        with closing(load_page(self._copy, index)) as page:
            left, bottom, right, top = page.get_mediabox()
            shown = _shown(page).then(Transform(1, 0, 0, 1, -left, -bottom))
            contents = [placed.layer.content(_place(placed.box).then(shown)) for placed in layers]
            form = _form(self._copy, right - left, top - bottom, b"".join(contents))
            form.transform(pypdfium2.PdfMatrix().translate(left, bottom))
            page.insert_obj(form)
            page.gen_content()

    def content(self, limit: int) -> bytes | None:
        """Return the copy, or the document itself if nothing was added; None if it is too large."""
        if self._copy is None:
            return self._source.read(limit) if self._source.size <= limit else None
        target = _Bounded(limit)
        self._copy.save(target)
        return None if target.is_full else target.getvalue()

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()


class _Bounded(io.BytesIO):
    """Drops the bytes beyond a limit, because PDFium cannot be stopped."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self.is_full = False

    def write(self, content: Any, /) -> int:
        size = memoryview(content).nbytes
        if self.tell() + size > self._limit:
            self.is_full = True
            return size
        return super().write(content)


def _place(box: Box) -> Transform:
    left, top, right, bottom = box
    return Transform(right - left, 0, 0, bottom - top, left, top)


def _shown(page: Any) -> Transform:
    """Return the transform from the page as shown, as 1 × 1 and y downwards, to that of the PDF."""
    (e, f), (right, right_y), (down, down_y) = (
        _point(page, x, y) for x, y in ((0, 0), (_DEVICE, 0), (0, _DEVICE))
    )
    return Transform(right - e, right_y - f, down - e, down_y - f, e, f)


def _point(page: Any, x: int, y: int) -> tuple[float, float]:
    page_x, page_y = ctypes.c_double(), ctypes.c_double()
    pdfium.FPDF_DeviceToPage(page, 0, 0, _DEVICE, _DEVICE, 0, x, y, page_x, page_y)
    return page_x.value, page_y.value


def _form(document: Any, width: float, height: float, content: bytes) -> Any:
    """Return the content as a form, so that earlier operators of the page do not affect it."""
    writer = PdfWriter()
    writer.add_page((0, 0, width, height), content)
    with (
        closing(pypdfium2.PdfDocument(writer.finish())) as drawn,
        closing(drawn.page_as_xobject(0, document)) as form,
    ):
        return form.as_pageobject()
