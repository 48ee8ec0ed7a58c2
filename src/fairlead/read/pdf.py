"""PDF, read by PDFium; pages without text are read by OCR."""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft, Parts, safe_name
from fairlead.read.error_guard import (
    ATTACHMENTS,
    FORMS,
    INVOICE,
    LAYOUT,
    PICTURES,
    PROPERTIES,
    TEXT_LAYER,
    UNREAD,
    PartName,
)
from fairlead.read.invoice import invoice_in
from fairlead.read.ocr import Ocr
from fairlead.read.outputs import PAGES, SEARCHABLE_PDF, Outputs
from fairlead.read.page_layout import Line, PageContent
from fairlead.read.page_markdown import PageMarkdown
from fairlead.read.pdf_forms import draws_too_much
from fairlead.read.pdf_hyphens import LineHyphens
from fairlead.read.pdf_page import EmbeddedPage, embedded_page
from fairlead.read.pdf_pictures import crop, page_picture, picture
from fairlead.read.searchable_pdf import PlacedLayer, SearchableCopy
from fairlead.read.text_layer import EMPTY_LAYER

_SIGNATURE = re.compile(rb"%PDF-\d")
_ANY_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_ENCRYPTED = (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)
_PAGE_BREAK = "\n\f"
_MAX_PAGES_WITH_PICTURES = 20  # beside text; each takes a second or more


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
        with draft.guard(FORMS):
            document.init_forms()  # before pages are loaded: makes fields without a picture visible
        pages = len(document)
        if not pages:
            raise CannotRead("damaged", "The PDF is damaged: it has no pages.")
        draft.fact("pages", pages)
        with draft.guard(PROPERTIES):
            _add_properties(document, draft)
        with draft.guard(ATTACHMENTS):
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


def _add_properties(document: Any, draft: Draft) -> None:
    draft.fact("title", document.get_metadata_value("Title"))
    draft.fact("author", document.get_metadata_value("Author"))
    draft.created(document.get_metadata_value("CreationDate"))


def _add_pages(document: Any, pages: int, draft: Draft, task: Task, copy: SearchableCopy) -> None:
    pages_to_read = draft.limit_pages(pages)
    markdown = PageMarkdown(draft)
    ocr = Ocr(draft, task)
    for index in range(pages_to_read):
        page = PageContent("", [])
        with draft.guard.page(index + 1):
            page = _page(document, index, ocr, task, copy)
        has_room = draft.add((_PAGE_BREAK if index else "") + page.text)
        markdown.add_page(index + 1, page)
        task.on_progress(index + 1, pages)
        if not has_room:
            break
    text = "".join(draft.text.pieces)
    with draft.guard(LAYOUT):
        hyphens = LineHyphens(text)
        draft.text.pieces = [hyphens.join(text)]
        markdown.mend = hyphens.join
    markdown.write()


def _page(document: Any, index: int, ocr: Ocr, task: Task, copy: SearchableCopy) -> PageContent:
    guard = ocr.draft.guard
    embedded = embedded_page(document, index, guard)
    page, layers = embedded.page, list[PlacedLayer]()
    if embedded.ocr_needed or embedded.pictures:
        try:
            page, layers = _with_ocr(document, index, embedded, ocr, task)
        except Exception as error:
            if not page.text.strip():
                raise  # nothing of the page could be read
            guard.take(error, PICTURES)
    if layers and SEARCHABLE_PDF in task.outputs:
        with guard(TEXT_LAYER):
            copy.add(index, layers)
    return page


def _with_ocr(
    document: Any, index: int, embedded: EmbeddedPage, ocr: Ocr, task: Task
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
        recognised, layer = PageContent("", []), EMPTY_LAYER
        with ocr.draft.guard(PICTURES):
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
        with draft.guard(UNREAD, PartName("attachment", safe_name(names[-1]))):
            content = bytes(attachment.get_data())
            if not _add_invoice(content, draft):
                parts.add(names[-1], content)
    draft.attachments(names)


def _add_invoice(content: bytes, draft: Draft) -> bool:
    """Add the fields of an invoice; return False if the content is none."""
    invoice = None
    with draft.guard(INVOICE):
        invoice = invoice_in(content)
        draft.fact("invoice", invoice)
    return bool(invoice)


READER = Reader("pdf", Rank.SIGNATURE, _recognises, _read)
