"""The embedded content of one page of a PDF."""

from __future__ import annotations

from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from fairlead.read.aligned_tables import take_aligned_tables
from fairlead.read.error_guard import FORMS, LAYOUT, PICTURES, TABLES, ErrorGuard
from fairlead.read.page_layout import Block, Line, PageContent
from fairlead.read.pdf_boxes import Box, PageView, load_page
from fairlead.read.pdf_drawings import DrawnObjects, drawn_objects, page_rulings
from fairlead.read.pdf_pictures import needs_ocr, pictures_beside
from fairlead.read.pdf_text import page_lines, plain_text, unplaced_lines
from fairlead.read.ruled_tables import Grid, find_grids, take_ruled_tables

_MAX_FIELDS = 200  # looked at on a page


class EmbeddedPage(NamedTuple):
    """A page with its embedded text, and the places of pictures that may show more."""

    page: PageContent
    ocr_needed: bool
    pictures: list[Box]  # with the width and height of the page as units


def embedded_page(document: Any, index: int, guard: ErrorGuard) -> EmbeddedPage:
    """Return the embedded content of a page; a rule that fails leaves the plain page."""
    page = load_page(document, index)
    try:
        has_fields = False
        with guard(FORMS):
            has_fields = _flatten_fields(page)
        if has_fields:
            # Flattened fields are part of the page only when it is loaded again.
            page.close()
            page = load_page(document, index)
        return _content(page, guard, has_fields=has_fields)
    finally:
        page.close()


def _flatten_fields(page: Any) -> bool:
    """Make the form fields a part of the page; return whether there are any."""
    if not _has_fields(page):
        return False
    result = pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
    return bool(result == pdfium.FLATTEN_SUCCESS)


def _has_fields(page: Any) -> bool:
    count = min(pdfium.FPDFPage_GetAnnotCount(page), _MAX_FIELDS)
    return any(_is_field(page, index) for index in range(count))


def _is_field(page: Any, index: int) -> bool:
    annotation = pdfium.FPDFPage_GetAnnot(page, index)
    if not annotation:
        return False
    try:
        return bool(pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET)
    finally:
        pdfium.FPDFPage_CloseAnnot(annotation)


class _Layout(NamedTuple):
    """The lines of a page, its tables among them, and the places of pictures beside text."""

    lines: list[Line]
    blocks: list[Block]
    pictures: list[Box]


def _content(page: Any, guard: ErrorGuard, *, has_fields: bool) -> EmbeddedPage:
    layout = None
    with guard(LAYOUT):
        layout = _layout(page, guard, has_fields=has_fields)
    if layout is None:
        lines = unplaced_lines(page)
        layout = _Layout(lines, list(lines), [])
    text = plain_text(layout.lines)
    ocr_needed = False
    with guard(PICTURES):
        ocr_needed = needs_ocr(page, text)
    return EmbeddedPage(PageContent(text, layout.blocks), ocr_needed, layout.pictures)


def _layout(page: Any, guard: ErrorGuard, *, has_fields: bool) -> _Layout:
    view = PageView(page)
    drawn, grids = DrawnObjects([], []), list[Grid]()
    with guard(TABLES):
        drawn = drawn_objects(page)
        grids = find_grids(page_rulings(drawn.paths, view))
    lines = page_lines(page, view, all_words=bool(grids), has_fields=has_fields)
    blocks: list[Block] = list(lines)
    with guard(TABLES):
        blocks = take_ruled_tables(lines, grids)
    with guard(TABLES):
        blocks = take_aligned_tables(blocks)
    pictures: list[Box] = []
    with guard(PICTURES):
        pictures = pictures_beside(lines, drawn.pictures, view) if drawn.pictures else []
    return _Layout(lines, blocks, pictures)
