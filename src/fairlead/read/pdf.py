"""PDF, by PDFium; pages without text are read as pictures."""

from __future__ import annotations

import math
import mmap
import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft, Parts
from fairlead.read.invoice import invoice_in
from fairlead.read.ocr import Ocr

_SIGNATURE = re.compile(rb"%PDF-\d")
_ANY_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_ENCRYPTED = (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)
_PAGE_BREAK = "\n\f"

# When a page needs OCR, and the picture for it
_MIN_TEXT = 25  # fewer characters may be no more than a stamp on a scan
_MIN_PICTURE_SHARE = 0.3  # of a page
_MAX_NONSENSE_SHARE = 0.3  # characters without a meaning: the font does not map to Unicode
_DPI = 300
_MAX_OCR_PIXELS = 16_000_000  # more does not help recognition
_MIN_SCALE = 0.5
_MAX_OBJECTS = 200

# Nested forms
_MAX_DRAWN = 100_000  # forms within one: about 150 MB
_MAX_FORMS = 5_000
_MAX_CONTENT = 4_000_000
_MAX_HEADER = 20_000
_OBJECT_START = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+obj$")
_REFERENCE = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+R\b")
_FORM = re.compile(rb"/Subtype\s*/Form\b")
_DRAW = re.compile(rb"\bDo\b")

Content = bytes | mmap.mmap


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
        if _draws_too_much(content):
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
    return draft.finish()


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
            text, needs_ocr = _embedded_text(document, index)
            yield _ocr_text(document, index, text, ocr, task) if needs_ocr else text
        except pypdfium2.PdfiumError:
            yield None


def _ocr_text(document: Any, index: int, text: str, ocr: Ocr, task: Task) -> str:
    """Return the text in the picture of a page, or `text` if that is longer."""
    if not ocr.ready():
        return text
    image = _picture(document, index, task.limits.pixels)
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
    with closing(page.get_textpage()) as text_page:
        # PDFium writes a control character for a hyphen at the end of a line, and no line break:
        # Draft drops controls, which joins the word again.
        text: str = text_page.get_text_bounded()
    return text, _needs_ocr(page, text)


def _needs_ocr(page: Any, text: str) -> bool:
    visible = len("".join(text.split()))
    if visible >= _MIN_TEXT:
        sample = text[:2_000]
        nonsense = sum(c == "\ufffd" or "\ue000" <= c <= "\uf8ff" or c < "\t" for c in sample)
        return nonsense > _MAX_NONSENSE_SHARE * len(sample)
    if not visible:
        return bool(pdfium.FPDFPage_CountObjects(page) > 0)
    return _has_large_picture(page)


def _has_large_picture(page: Any) -> bool:
    width, height = page.get_size()
    pictures = page.get_objects(filter=(pdfium.FPDF_PAGEOBJ_IMAGE,), max_depth=3)
    for _, shown in zip(range(_MAX_OBJECTS), pictures, strict=False):
        try:
            left, bottom, right, top = shown.get_bounds()
        except pypdfium2.PdfiumError:
            continue
        if (right - left) * (top - bottom) > _MIN_PICTURE_SHARE * width * height:
            return True
    return False


def _picture(document: Any, index: int, max_pixels: int) -> Image.Image | None:
    """Render the page in grey; None if it is too large."""
    with closing(document[index]) as page:
        width, height = page.get_size()
        points = max(1.0, width * height)
        scale = min(_DPI / 72, (min(_MAX_OCR_PIXELS, max_pixels) / points) ** 0.5)
        if scale < _MIN_SCALE:
            return None
        with closing(page.render(scale=scale, grayscale=True)) as bitmap:
            image: Image.Image = bitmap.to_pil().copy()
            return image


def _has_fields(page: Any) -> bool:
    count = min(pdfium.FPDFPage_GetAnnotCount(page), _MAX_OBJECTS)
    return any(_is_field(page, index) for index in range(count))


def _is_field(page: Any, index: int) -> bool:
    annotation = pdfium.FPDFPage_GetAnnot(page, index)
    if not annotation:
        return False
    try:
        return bool(pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET)
    finally:
        pdfium.FPDFPage_CloseAnnot(annotation)


def _draws_too_much(content: Content) -> bool:
    """Return whether one form of the PDF draws more forms than fit into memory.

    Forms can draw forms, which makes few bytes exceed any memory. PDFium draws them all when it
    loads a page and ends the process when memory runs out, so they are counted before. Forms
    that this count does not see still meet the limits of the process.
    """
    forms = _Forms(content)
    draws = [count for count, _ in forms.nested.values()]
    # An upper bound, however they are nested.
    if (len(draws) + 1) * math.prod(draws) <= _MAX_DRAWN:
        return False
    return any(forms.drawn(number) > _MAX_DRAWN for number in forms.nested)


class _Forms:
    """The forms of a PDF and what each draws."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._drawn: dict[int, int] = {}
        self.nested: dict[int, tuple[int, list[int]]] = {}  # draws, and objects it can draw
        for form, _ in zip(_FORM.finditer(content), range(_MAX_FORMS), strict=False):
            self._add(form.start())

    def drawn(self, number: int) -> int:
        """Return how many forms this one draws, itself included; at most one too many."""
        if number not in self._drawn:
            self._drawn[number] = 1  # a form that draws itself is not drawn again
            draws, drawable = self.nested.get(number, (0, []))
            most = max(map(self.drawn, self._forms_among(drawable)), default=0)
            self._drawn[number] = min(1 + draws * most, _MAX_DRAWN + 1)
        return self._drawn[number]

    def _add(self, at: int) -> None:
        start = self._content.rfind(b"obj", max(0, at - _MAX_HEADER), at)
        number = _object_number(self._content, start)
        stream = self._content.find(b"stream", at, at + _MAX_HEADER)
        if number is None or stream < 0:
            return
        header = self._content[start:stream]
        draws = len(_DRAW.findall(self._stream(header, stream)))
        if draws and b"/Resources" in header:
            self.nested[number] = draws, _references(header)

    def _stream(self, header: bytes, stream: int) -> bytes:
        end = self._content.find(b"endstream", stream, stream + _MAX_CONTENT)
        data = self._content[stream + 6 : end if end > 0 else stream + _MAX_CONTENT]
        if b"FlateDecode" not in header:
            return data
        try:
            return zlib.decompressobj().decompress(data.lstrip(b"\r\n"), _MAX_CONTENT)
        except zlib.error:
            return b""

    def _forms_among(self, numbers: list[int]) -> list[int]:
        """Return the forms, and the objects in lists of forms."""
        forms = []
        for number in numbers:
            forms.append(number)
            if number not in self.nested and number in self._places:
                at = self._places[number]
                forms.extend(_references(self._content[at : at + _MAX_HEADER])[:100])
        return forms

    @cached_property
    def _places(self) -> dict[int, int]:
        places = {}
        at = self._content.find(b"obj")
        while at > 0:
            number = _object_number(self._content, at)
            if number is not None:
                places[number] = at + 3
            at = self._content.find(b"obj", at + 3)
        return places


def _object_number(content: Content, at: int) -> int | None:
    """Return the number of the object that begins with the word `obj` at this place."""
    match = _OBJECT_START.search(content[max(0, at - 24) : at + 3]) if at > 0 else None
    return int(match[1]) if match else None


def _references(data: bytes) -> list[int]:
    # After the end of an object without a stream, others follow.
    own = data.partition(b"endobj")[0]
    return [int(match[1]) for match in _REFERENCE.finditer(own)]


READER = Reader("pdf", Rank.SIGNATURE, _recognises, _read)
