"""A page of a PDF: its text, whether that is all there is to read, and its picture."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

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
