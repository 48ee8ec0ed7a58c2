"""PDF, by PDFium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pypdfium2
import pypdfium2.raw

from fairlead.work.extract.base import CannotRead, Draft, Extracted, Rank, Reader, Source, library

_SIGNATURE = re.compile(rb"%PDF-\d")
_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_LOCKED = (pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY)
_PAGE_BREAK = "\n\f"


def recognises(source: Source) -> bool:
    """Whether the signature stands at the start, or near it with a PDF's objects behind."""
    if _SIGNATURE.match(source.head.lstrip(b"\xef\xbb\xbf\x00\t\n\f\r ")):
        return True
    found = _SIGNATURE.search(source.head, 0, 1024)
    return bool(found and _OBJECT.search(source.head, found.end()))


def read(source: Source, max_characters: int) -> Extracted:
    """The pages' text, with a form feed between two pages."""
    draft = Draft("pdf", library("pypdfium2"), max_characters)
    with closing(_open(source)) as document:
        pages = len(document)
        if not pages:
            raise CannotRead("damaged", "The PDF is damaged: it has no pages.")
        draft.fact("pages", pages)
        for name, key in (("title", "Title"), ("author", "Author")):
            draft.fact(name, document.get_metadata_value(key))
        _add_pages(document, pages, draft)
    return draft.finish()


def _open(source: Source) -> Any:
    try:
        return pypdfium2.PdfDocument(source.path)
    except pypdfium2.PdfiumError as error:
        if error.err_code in _LOCKED:
            detail = "The PDF is protected by a password; send it without one."
            raise CannotRead("encrypted", detail) from None
        raise CannotRead("damaged", "The PDF is damaged and could not be opened.") from error


def _add_pages(document: Any, pages: int, draft: Draft) -> None:
    unread = 0
    for index, text in enumerate(_texts(document, pages)):
        unread += text is None
        if not draft.add((_PAGE_BREAK if index else "") + (text or "")):
            break
    if unread == pages:
        raise CannotRead("damaged", "The PDF is damaged: none of its pages could be read.")
    if unread:
        draft.warn(f"{unread} of {pages} pages are damaged and could not be read")


def _texts(document: Any, pages: int) -> Iterator[str | None]:
    """Each page's text; None for a page that cannot be read."""
    for index in range(pages):
        try:
            yield _page_text(document, index)
        except pypdfium2.PdfiumError:
            yield None


def _page_text(document: Any, index: int) -> str:
    with closing(document[index]) as page, closing(page.get_textpage()) as text_page:
        # A hyphen at the end of a line comes as a control character without the line break:
        # dropping it, as every draft does, joins the word again.
        text: str = text_page.get_text_bounded()
        return text


READER = Reader("pdf", Rank.SIGNATURE, recognises, read)
