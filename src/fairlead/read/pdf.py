"""PDF, by PDFium; pages without text are read as pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pypdfium2
import pypdfium2.raw

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Task, library, locked
from fairlead.read.draft import Draft
from fairlead.read.invoice import invoice_in
from fairlead.read.ocr import Ocr
from fairlead.read.parts import Parts
from fairlead.read.pdfforms import draws_too_much
from fairlead.read.pdfpage import page_text, picture
from fairlead.read.source import Source

_SIGNATURE = re.compile(rb"%PDF-\d")
_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_LOCKED = (pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY)
_FACTS = (("title", "Title"), ("author", "Author"))
_PAGE_BREAK = "\n\f"


def recognises(source: Source) -> bool:
    """Whether the signature stands at the start, or near it with a PDF's objects behind."""
    if _SIGNATURE.match(source.head.lstrip(b"\xef\xbb\xbf\x00\t\n\f\r ")):
        return True
    found = _SIGNATURE.search(source.head, 0, 1024)
    return bool(found and _OBJECT.search(source.head, found.end()))


def read(source: Source, task: Task) -> Extracted:
    """The pages' text, with a form feed between two pages."""
    draft = Draft("pdf", library("pypdfium2"), task.limits)
    with source.mapped() as content:
        if draws_too_much(content):
            raise CannotRead("too-large", "The PDF draws more forms within forms than can be held.")
    with closing(_open(source, task)) as document:
        pages = len(document)
        if not pages:
            raise CannotRead("damaged", "The PDF is damaged: it has no pages.")
        draft.fact("pages", pages)
        for name, key in _FACTS:
            draft.fact(name, document.get_metadata_value(key))
        draft.created(document.get_metadata_value("CreationDate"))
        _add_attachments(document, draft)
        _add_pages(document, pages, draft, task)
    return draft.finish()


def _open(source: Source, task: Task) -> Any:
    try:
        return pypdfium2.PdfDocument(source.path, password=task.password)
    except pypdfium2.PdfiumError as error:
        if error.err_code in _LOCKED:
            raise locked("PDF", task.password) from None
        raise CannotRead("damaged", "The PDF is damaged and could not be opened.") from error


def _add_pages(document: Any, pages: int, draft: Draft, task: Task) -> None:
    wanted = min(pages, task.limits.pages)
    if wanted < pages:
        draft.warn(f"only the first {wanted} of {pages} pages were read")
    unread = 0
    for index, text in enumerate(_texts(document, wanted, draft, task)):
        unread += text is None
        going_on = draft.add((_PAGE_BREAK if index else "") + (text or ""))
        task.on_progress(index + 1, pages)
        if not going_on:
            break
    if unread == wanted:
        raise CannotRead("damaged", "The PDF is damaged: none of its pages could be read.")
    if unread:
        draft.warn(f"{unread} of {pages} pages are damaged and could not be read")


def _texts(document: Any, pages: int, draft: Draft, task: Task) -> Iterator[str | None]:
    """Each page's text; None for a page that cannot be read."""
    ocr = Ocr(draft, task)
    for index in range(pages):
        try:
            yield _text(document, index, ocr, task)
        except pypdfium2.PdfiumError:
            yield None


def _text(document: Any, index: int, ocr: Ocr, task: Task) -> str:
    text, needs_ocr = page_text(document, index)
    if not needs_ocr or not ocr.ready():
        return text
    image = picture(document, index, task.limits.pixels)
    if image is None:
        ocr.draft.warn(f"page {index + 1} is too large to be read as a picture")
        return text
    seen = ocr.read(image)
    return seen if len(seen) > len(text) else text


def _add_attachments(document: Any, draft: Draft) -> None:
    """Attachments become parts; the XML of an invoice becomes a fact."""
    parts = Parts(draft)
    names = []
    for index in range(min(document.count_attachments(), draft.limits.members)):
        attachment = document.get_attachment(index)
        name = attachment.get_name()
        names.append(name)
        try:
            content = bytes(attachment.get_data())
        except pypdfium2.PdfiumError:
            draft.warn("an attachment is damaged and could not be read")
            continue
        invoice = invoice_in(content)
        if invoice:
            draft.fact("invoice", invoice)
        else:
            parts.add(name, content)
    draft.attachments(names)


READER = Reader("pdf", Rank.SIGNATURE, recognises, read)
