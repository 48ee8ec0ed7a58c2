"""PDF, by PDFium; pages without text are read as pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft, Parts
from fairlead.read.invoice import invoice_in
from fairlead.read.ocr import Ocr
from fairlead.read.pdf_forms import draws_too_much
from fairlead.read.pdf_hyphens import LineHyphens
from fairlead.read.pdf_pictures import needs_ocr, picture
from fairlead.read.pdf_text import page_lines, plain_text

_SIGNATURE = re.compile(rb"%PDF-\d")
_ANY_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_ENCRYPTED = (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)
_PAGE_BREAK = "\n\f"
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
        _add_pages(document, pages, draft, task)
    _join_broken_words(draft)
    return draft.finish()


def _join_broken_words(draft: Draft) -> None:
    text = "".join(draft.text.pieces)
    draft.text.pieces = [LineHyphens(text).join(text)]


def _open(source: Source, task: Task) -> Any:
    try:
        return pypdfium2.PdfDocument(source.path, password=task.password)
    except pypdfium2.PdfiumError as error:
        if error.err_code in _ENCRYPTED:
            raise CannotRead.encrypted("PDF", task.password) from None
        raise CannotRead("damaged", "The PDF is damaged and could not be opened.") from error


def _add_pages(document: Any, pages: int, draft: Draft, task: Task) -> None:
    wanted = draft.limit_pages(pages)
    damaged = 0
    for index, text in enumerate(_page_texts(document, wanted, Ocr(draft, task), task)):
        damaged += text is None
        has_room = draft.add((_PAGE_BREAK if index else "") + (text or ""))
        task.on_progress(index + 1, pages)
        if not has_room:
            break
    if damaged == wanted:
        raise CannotRead("damaged", "The PDF is damaged: none of its pages could be read.")
    if damaged:
        draft.warn(f"{damaged} of {pages} pages are damaged and could not be read")


def _page_texts(document: Any, pages: int, ocr: Ocr, task: Task) -> Iterator[str | None]:
    """Yield the text of each page; None for a damaged page."""
    for index in range(pages):
        try:
            text, ocr_needed = _embedded_text(document, index)
            yield _ocr_text(document, index, text, ocr, task) if ocr_needed else text
        except pypdfium2.PdfiumError:
            yield None


def _ocr_text(document: Any, index: int, text: str, ocr: Ocr, task: Task) -> str:
    """Return the text in the picture of a page, or `text` if that is longer."""
    if not ocr.ready():
        return text
    image = picture(document, index, task.limits.pixels)
    if image is None:
        ocr.draft.warn(f"page {index + 1} is too large to be read as a picture")
        return text
    recognised = ocr.read(image)
    return recognised if len(recognised) > len(text) else text


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


def _embedded_text(document: Any, index: int) -> tuple[str, bool]:
    """Return the text of a page, and whether its picture may show more."""
    with closing(document[index]) as page:
        flatten = pdfium.FPDFPage_Flatten  # makes form fields part of the page
        mode, changed = pdfium.FLAT_NORMALDISPLAY, pdfium.FLATTEN_SUCCESS
        if not _has_fields(page) or flatten(page, mode) != changed:
            return _text(page)
    # Flattened form fields are part of the page only when it is loaded again.
    with closing(document[index]) as page:
        return _text(page)


def _text(page: Any) -> tuple[str, bool]:
    text = plain_text(page_lines(page))
    return text, needs_ocr(page, text)


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
