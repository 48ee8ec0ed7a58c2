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
import pypdfium2.raw
import pypdfium2.raw as pdfium
from PIL import Image

from fairlead.read.base import (
    CannotRead,
    Extracted,
    Rank,
    Reader,
    Source,
    Task,
    library,
    password_error,
)
from fairlead.read.draft import Draft, Parts
from fairlead.read.invoice import invoice_in
from fairlead.read.ocr import Ocr

MOST_DRAWN = 100_000  # forms within one: about 150 MB
_MOST_FORMS = 5_000
_MOST_CONTENT = 4_000_000
_LONGEST_HEAD = 20_000
_OBJECT_END = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+obj$")
_REFERENCE = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+R\b")
_FORM = re.compile(rb"/Subtype\s*/Form\b")
_DRAW = re.compile(rb"\bDo\b")

Content = bytes | mmap.mmap


def draws_too_much(content: Content) -> bool:
    """Whether one form of the PDF draws more forms than can be held in memory."""
    forms = _Forms(content)
    draws = [count for count, _ in forms.nested.values()]
    # However they are nested, it cannot be more than this.
    if (len(draws) + 1) * math.prod(draws) <= MOST_DRAWN:
        return False
    return any(forms.drawn(number) > MOST_DRAWN for number in forms.nested)


class _Forms:
    """The forms of a PDF and what each draws."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._drawn: dict[int, int] = {}
        self.nested: dict[int, tuple[int, list[int]]] = {}  # draws, and what may be drawn
        for found, _ in zip(_FORM.finditer(content), range(_MOST_FORMS), strict=False):
            self._add(found.start())

    def drawn(self, number: int) -> int:
        """How many forms drawing this one draws, itself included; at most a bit too many."""
        if number not in self._drawn:
            self._drawn[number] = 1  # what draws itself is not drawn again
            draws, drawable = self.nested.get(number, (0, []))
            most = max(map(self.drawn, self._forms_among(drawable)), default=0)
            self._drawn[number] = min(1 + draws * most, MOST_DRAWN + 1)
        return self._drawn[number]

    def _add(self, at: int) -> None:
        start = self._content.rfind(b"obj", max(0, at - _LONGEST_HEAD), at)
        number = _number_before(self._content, start)
        stream = self._content.find(b"stream", at, at + _LONGEST_HEAD)
        if number is None or stream < 0:
            return
        head = self._content[start:stream]
        draws = len(_DRAW.findall(self._stream(head, stream)))
        if draws and b"/Resources" in head:
            self.nested[number] = draws, _references(head)

    def _stream(self, head: bytes, stream: int) -> bytes:
        end = self._content.find(b"endstream", stream, stream + _MOST_CONTENT)
        data = self._content[stream + 6 : end if end > 0 else stream + _MOST_CONTENT]
        if b"FlateDecode" not in head:
            return data
        try:
            return zlib.decompressobj().decompress(data.lstrip(b"\r\n"), _MOST_CONTENT)
        except zlib.error:
            return b""

    def _forms_among(self, numbers: list[int]) -> list[int]:
        """Those that are forms, or lists of forms."""
        found = []
        for number in numbers:
            if number in self.nested or number not in self._places:
                found.append(number)
                continue
            at = self._places[number]
            found.extend([number, *_references(self._content[at : at + _LONGEST_HEAD])[:100]])
        return found

    @cached_property
    def _places(self) -> dict[int, int]:
        found = {}
        at = self._content.find(b"obj")
        while at > 0:
            number = _number_before(self._content, at)
            if number is not None:
                found[number] = at + 3
            at = self._content.find(b"obj", at + 3)
        return found


def _number_before(content: Content, at: int) -> int | None:
    """The number of the object that begins with the word `obj` at this place."""
    found = _OBJECT_END.search(content[max(0, at - 24) : at + 3]) if at > 0 else None
    return int(found[1]) if found else None


def _references(data: bytes) -> list[int]:
    # Of an object that is no stream, what follows belongs to others.
    own = data.partition(b"endobj")[0]
    return [int(found[1]) for found in _REFERENCE.finditer(own)]


_LITTLE_TEXT = 25  # fewer characters may be no more than a stamp on a scan
_LARGE_PICTURE = 0.3  # of a page
_NONSENSE = 0.3  # of the characters without a meaning: fonts that keep it to themselves
_DPI = 300
_MOST_PIXELS = 16_000_000  # of a page for recognition: more does not help it
_LEAST_SCALE = 0.5
_OBJECTS_LOOKED_AT = 200
_PICTURE_KINDS = (pdfium.FPDF_PAGEOBJ_IMAGE,)


def page_text(document: Any, index: int) -> tuple[str, bool]:
    """The text of a page, and whether only its picture shows what else it says."""
    with closing(document[index]) as page:
        filled = _has_fields(page) and _flatten(page)
        if not filled:
            text = _text(page)
            return text, _needs_ocr(page, text)
    # What was typed into a form belongs to the page only when it is loaded anew.
    with closing(document[index]) as page:
        text = _text(page)
        return text, _needs_ocr(page, text)


def picture(document: Any, index: int, max_pixels: int) -> Image.Image | None:
    """The page as a grey picture; None where it is too large for one."""
    with closing(document[index]) as page:
        width, height = page.get_size()
        points = max(1.0, width * height)
        scale = min(_DPI / 72, (min(_MOST_PIXELS, max_pixels) / points) ** 0.5)
        if scale < _LEAST_SCALE:
            return None
        with closing(page.render(scale=scale, grayscale=True)) as bitmap:
            image: Image.Image = bitmap.to_pil().copy()
            return image


def _text(page: Any) -> str:
    with closing(page.get_textpage()) as text_page:
        # A hyphen at the end of a line comes as a control character without the line break:
        # dropping it, as every draft does, joins the word again.
        text: str = text_page.get_text_bounded()
        return text


def _needs_ocr(page: Any, text: str) -> bool:
    visible = len("".join(text.split()))
    if visible >= _LITTLE_TEXT:
        return _is_nonsense(text)
    if not visible:
        return bool(pdfium.FPDFPage_CountObjects(page) > 0)
    return _has_large_picture(page)


def _is_nonsense(text: str) -> bool:
    sample = text[:2_000]
    meaningless = sum(c == "\ufffd" or "\ue000" <= c <= "\uf8ff" or c < "\t" for c in sample)
    return meaningless > _NONSENSE * len(sample)


def _has_large_picture(page: Any) -> bool:
    width, height = page.get_size()
    found = page.get_objects(filter=_PICTURE_KINDS, max_depth=3)
    for _, shown in zip(range(_OBJECTS_LOOKED_AT), found, strict=False):
        try:
            left, bottom, right, top = shown.get_bounds()
        except pypdfium2.PdfiumError:
            continue
        if (right - left) * (top - bottom) > _LARGE_PICTURE * width * height:
            return True
    return False


def _has_fields(page: Any) -> bool:
    count = min(pdfium.FPDFPage_GetAnnotCount(page), _OBJECTS_LOOKED_AT)
    return any(_is_field(page, index) for index in range(count))


def _is_field(page: Any, index: int) -> bool:
    annotation = pdfium.FPDFPage_GetAnnot(page, index)
    if not annotation:
        return False
    try:
        return bool(pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET)
    finally:
        pdfium.FPDFPage_CloseAnnot(annotation)


def _flatten(page: Any) -> bool:
    """Make what was typed into a form a part of the page; whether anything changed."""
    done = pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
    return bool(done == pdfium.FLATTEN_SUCCESS)


_SIGNATURE = re.compile(rb"%PDF-\d")
_ANY_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_LOCKED = (pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY)
_FACTS = (("title", "Title"), ("author", "Author"))
_PAGE_BREAK = "\n\f"


def recognises(source: Source) -> bool:
    """Whether the signature stands at the start, or near it with a PDF's objects behind."""
    if _SIGNATURE.match(source.head.lstrip(b"\xef\xbb\xbf\x00\t\n\f\r ")):
        return True
    found = _SIGNATURE.search(source.head, 0, 1024)
    return bool(found and _ANY_OBJECT.search(source.head, found.end()))


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
            raise password_error("PDF", task.password) from None
        raise CannotRead("damaged", "The PDF is damaged and could not be opened.") from error


def _add_pages(document: Any, pages: int, draft: Draft, task: Task) -> None:
    wanted = min(pages, task.limits.pages)
    if wanted < pages:
        draft.warn(f"only the first {wanted} of {pages} pages were read")
    unread = 0
    for index, text in enumerate(_texts(document, wanted, draft, task)):
        unread += text is None
        has_room = draft.add((_PAGE_BREAK if index else "") + (text or ""))
        task.on_progress(index + 1, pages)
        if not has_room:
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
            yield _page_or_ocr_text(document, index, ocr, task)
        except pypdfium2.PdfiumError:
            yield None


def _page_or_ocr_text(document: Any, index: int, ocr: Ocr, task: Task) -> str:
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
