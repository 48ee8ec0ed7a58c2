"""PDF, read by PDFium; pages without text are read by OCR."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from fairlead.read.aligned_tables import take_aligned_tables
from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft, Parts
from fairlead.read.invoice import invoice_in
from fairlead.read.ocr import Ocr
from fairlead.read.outputs import PAGES, SEARCHABLE_PDF, Outputs
from fairlead.read.page_layout import Line, PageContent
from fairlead.read.page_markdown import PageMarkdown
from fairlead.read.pdf_boxes import Box, PageView
from fairlead.read.pdf_drawings import drawn_objects, page_rulings
from fairlead.read.pdf_forms import draws_too_much
from fairlead.read.pdf_hyphens import LineHyphens
from fairlead.read.pdf_pictures import (
    crop,
    needs_ocr,
    page_picture,
    picture,
    pictures_beside,
)
from fairlead.read.pdf_text import page_lines, plain_text
from fairlead.read.ruled_tables import find_grids, take_ruled_tables
from fairlead.read.searchable_pdf import PlacedLayer, SearchableCopy

_SIGNATURE = re.compile(rb"%PDF-\d")
_ANY_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_ENCRYPTED = (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)
_PAGE_BREAK = "\n\f"
_MAX_PAGES_WITH_PICTURES = 20  # beside text; each takes a second or more
_MAX_FIELDS = 200  # looked at on a page


def _recognises(source: Source) -> bool:
    """Recognise the signature at the start, or near it if PDF objects follow."""
    if _SIGNATURE.match(source.head.lstrip(b"\xef\xbb\xbf\x00\t\n\f\r ")):
        return True
    signature = _SIGNATURE.search(source.head, 0, 1024)
    return bool(signature and _ANY_OBJECT.search(source.head, signature.end()))


def _read(source: Source, task: Task) -> Extracted:
    """The text of the pages, with a form feed between two pages."""
    draft = Draft("pdf", library("pypdfium2"), task.limits)
    with source.mapped() as content:
        if draws_too_much(content):
            raise CannotRead("too-large", "The PDF draws more forms within forms than can be held.")
    with closing(_open(source, task)) as document:
        pages = len(document)
        if not pages:
            raise CannotRead("damaged", "The PDF is damaged: it has no pages.")
        draft.fact("pages", pages)
        draft.fact("title", document.get_metadata_value("Title"))
        draft.fact("author", document.get_metadata_value("Author"))
        draft.created(document.get_metadata_value("CreationDate"))
        _add_attachments(document, draft)
        with closing(SearchableCopy(source, task.password)) as copy:
            _add_pages(document, pages, draft, task, copy)
            _add_outputs(document, pages, draft, task, copy)
    return draft.finish()


def _open(source: Source, task: Task) -> Any:
    try:
        return pypdfium2.PdfDocument(source.path, password=task.password)
    except pypdfium2.PdfiumError as error:
        if error.err_code in _ENCRYPTED:
            raise CannotRead.encrypted("PDF", task.password) from None
        raise CannotRead("damaged", "The PDF is damaged and could not be opened.") from error


def _add_pages(document: Any, pages: int, draft: Draft, task: Task, copy: SearchableCopy) -> None:
    pages_to_read = draft.limit_pages(pages)
    markdown = PageMarkdown(draft.limits.characters)
    damaged = 0
    for index, page in enumerate(_pages(document, pages_to_read, Ocr(draft, task), task, copy)):
        damaged += page is None
        text, blocks = page or PageContent("", [])
        has_room = draft.add((_PAGE_BREAK if index else "") + text)
        markdown.add_page(blocks)
        task.on_progress(index + 1, pages)
        if not has_room:
            break
    if damaged == pages_to_read:
        raise CannotRead("damaged", "The PDF is damaged: none of its pages could be read.")
    if damaged:
        draft.warn(f"{damaged} of {pages} pages are damaged and could not be read")
    text = "".join(draft.text.pieces)
    hyphens = LineHyphens(text)
    draft.text.pieces = [hyphens.join(text)]
    markdown.write(draft.markdown, hyphens.join)


def _pages(
    document: Any, pages: int, ocr: Ocr, task: Task, copy: SearchableCopy
) -> Iterator[PageContent | None]:
    """Yield each page; None for a damaged page."""
    for index in range(pages):
        try:
            embedded = _embedded_page(document, index)
            if embedded.ocr_needed or embedded.pictures:
                page, layers = _with_ocr(document, index, embedded, ocr, task)
                if layers and SEARCHABLE_PDF in task.outputs:
                    copy.add(index, layers)
                yield page
            else:
                yield embedded.page
        except pypdfium2.PdfiumError:
            yield None


class _Embedded(NamedTuple):
    """A page with its embedded text, and the places of pictures that may show more."""

    page: PageContent
    ocr_needed: bool
    pictures: list[Box]  # with the width and height of the page as units


def _with_ocr(
    document: Any, index: int, embedded: _Embedded, ocr: Ocr, task: Task
) -> tuple[PageContent, list[PlacedLayer]]:
    """Return the page with the text that OCR recognises, and the layers with its places."""
    page, layers = embedded.page, list[PlacedLayer]()
    if not ocr.ready():
        return page, layers
    if not embedded.ocr_needed and ocr.pages >= _MAX_PAGES_WITH_PICTURES:
        ocr.draft.warn("some pictures beside text were not read")
        return page, layers
    image = picture(document, index, task.limits.pixels)
    if image is None:
        ocr.draft.warn(f"page {index + 1} is too large to be read as a picture")
        return page, layers
    if embedded.ocr_needed:
        recognised, layer = ocr.read(image)
        is_better = len(recognised.text) > len(page.text)
        return (recognised, [PlacedLayer(layer)]) if is_better else (page, layers)
    for box in embedded.pictures:
        recognised, layer = ocr.read(crop(image, box))
        if recognised.text:
            separator = Line("", [])
            text = f"{page.text}\n{recognised.text}"
            page = PageContent(text, [*page.blocks, separator, *recognised.blocks])
            layers.append(PlacedLayer(layer, box))
    return page, layers


def _add_outputs(document: Any, pages: int, draft: Draft, task: Task, copy: SearchableCopy) -> None:
    outputs = Outputs(draft, task)
    if outputs.wants(SEARCHABLE_PDF):
        outputs.add_searchable(copy.content)
    if outputs.wants(PAGES):
        for index in range(pages):
            render = partial(page_picture, document, index)
            if not outputs.add_picture(index + 1, pages, render):
                break


def _add_attachments(document: Any, draft: Draft) -> None:
    """Add attachments as parts, and the XML of an invoice as a fact."""
    parts = Parts(draft)
    names = []
    for index in range(min(document.count_attachments(), draft.limits.members)):
        attachment = document.get_attachment(index)
        names.append(attachment.get_name())
        try:
            content = bytes(attachment.get_data())
        except pypdfium2.PdfiumError:
            draft.warn("an attachment is damaged and could not be read")
            continue
        if invoice := invoice_in(content):
            draft.fact("invoice", invoice)
        else:
            parts.add(names[-1], content)
    draft.attachments(names)


def _embedded_page(document: Any, index: int) -> _Embedded:
    with closing(document[index]) as page:
        flatten = pdfium.FPDFPage_Flatten  # makes form fields part of the page
        mode, changed = pdfium.FLAT_NORMALDISPLAY, pdfium.FLATTEN_SUCCESS
        if not _has_fields(page) or flatten(page, mode) != changed:
            return _content(page)
    # Flattened form fields are part of the page only when it is loaded again.
    with closing(document[index]) as page:
        return _content(page)


def _content(page: Any) -> _Embedded:
    view = PageView(page)
    drawn = drawn_objects(page)
    grids = find_grids(page_rulings(drawn.paths, view))
    lines = page_lines(page, view, all_words=bool(grids))
    text = plain_text(lines)
    blocks = take_aligned_tables(take_ruled_tables(lines, grids))
    pictures = pictures_beside(lines, drawn.pictures, view) if drawn.pictures else []
    return _Embedded(PageContent(text, blocks), needs_ocr(page, text), pictures)


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


READER = Reader("pdf", Rank.SIGNATURE, _recognises, _read)
