"""Decides which pages of a PDF need OCR, and renders them."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

from fairlead.read.outputs import MAX_PICTURE_PIXELS
from fairlead.read.page_layout import Line
from fairlead.read.pdf_boxes import Box, PageView, load_page
from fairlead.read.pdf_drawings import object_box

_MIN_TEXT = 25  # fewer characters may be no more than a stamp on a scan
_MIN_PICTURE_SHARE = 0.3  # of a page
_MAX_NONSENSE_SHARE = 0.3  # characters without a meaning: the font does not map to Unicode
_NONSENSE = re.compile("[\ufffd\ue000-\uf8ff\x00-\x08]")
_DPI = 300
_MAX_OCR_PIXELS = 16_000_000  # more does not help recognition
_MIN_SCALE = 0.5
_SHOWN_DPI = 150
_MIN_SHOWN_SCALE = 0.02  # the largest page that a PDF may have is 14,400 points wide and high
_MAX_OBJECTS = 200

# Pictures beside text
_MIN_BESIDE_SHARE = 0.05  # of a page
_MIN_SIDE = 50.0  # points: less is a logo or a signature
_MAX_PICTURES = 3  # of a page


def needs_ocr(page: Any, text: str) -> bool:
    visible = len("".join(text.split()))
    if visible >= _MIN_TEXT:
        sample = text[:2_000]
        return len(_NONSENSE.findall(sample)) > _MAX_NONSENSE_SHARE * len(sample)
    if not visible:
        return bool(pdfium.FPDFPage_CountObjects(page) > 0)
    return _has_large_picture(page)


def pictures_beside(lines: list[Line], pictures: list[Any], view: PageView) -> list[Box]:
    """Return the places of pictures that may show text, as shares of the page.

    A picture with text over it is a scan with its recognised text, or a background.
    """
    raw_boxes = (object_box(picture) for picture in pictures[:_MAX_OBJECTS])
    boxes = [view.box(box) for box in raw_boxes if box]
    beside = [view.share(box) for box in boxes if _is_high(box) and not _has_text(box, lines)]
    return [box for box in beside if _share(box) > _MIN_BESIDE_SHARE][:_MAX_PICTURES]


def crop(image: Image.Image, box: Box) -> Image.Image:
    """Return a part of the picture of a page."""
    left, top, right, bottom = (min(1.0, max(0.0, side)) for side in box)
    width, height = image.size
    return image.crop(
        (int(left * width), int(top * height), int(right * width), int(bottom * height))
    )


def _is_high(box: Box) -> bool:
    return min(box[2] - box[0], box[3] - box[1]) > _MIN_SIDE


def _share(box: Box) -> float:
    left, top, right, bottom = (min(1.0, max(0.0, side)) for side in box)
    return (right - left) * (bottom - top)


def _has_text(box: Box, lines: list[Line]) -> bool:
    left, top, right, bottom = box
    words = (word for line in lines for word in line.words)
    inside = (
        len(word.text)
        for word in words
        if left < (word.left + word.right) / 2 < right
        and top < (word.top + word.bottom) / 2 < bottom
    )
    return sum(inside) >= _MIN_TEXT


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


def page_picture(document: Any, index: int) -> Image.Image | None:
    """Render the page for people; None if it is too large."""
    with closing(load_page(document, index)) as page:
        width, height = page.get_size()
        scale = min(_SHOWN_DPI / 72, (MAX_PICTURE_PIXELS / max(1.0, width * height)) ** 0.5)
        if scale < _MIN_SHOWN_SCALE:
            return None
        with closing(page.render(scale=scale, rev_byteorder=True)) as bitmap:
            image: Image.Image = bitmap.to_pil().convert("RGB")
            return image


def picture(document: Any, index: int, max_pixels: int) -> Image.Image | None:
    """Render the page in grey; None if it is too large."""
    with closing(load_page(document, index)) as page:
        width, height = page.get_size()
        points = max(1.0, width * height)
        scale = min(_DPI / 72, (min(_MAX_OCR_PIXELS, max_pixels) / points) ** 0.5)
        if scale < _MIN_SCALE:
            return None
        with closing(page.render(scale=scale, grayscale=True)) as bitmap:
            image: Image.Image = bitmap.to_pil().copy()
            return image
