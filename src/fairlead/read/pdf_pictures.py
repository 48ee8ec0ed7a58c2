"""Decides which pages of a PDF need OCR, and renders them."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

_MIN_TEXT = 25  # fewer characters may be no more than a stamp on a scan
_MIN_PICTURE_SHARE = 0.3  # of a page
_MAX_NONSENSE_SHARE = 0.3  # characters without a meaning: the font does not map to Unicode
_NONSENSE = re.compile("[\ufffd\ue000-\uf8ff\x00-\x08]")
_DPI = 300
_MAX_OCR_PIXELS = 16_000_000  # more does not help recognition
_MIN_SCALE = 0.5
_MAX_OBJECTS = 200


def needs_ocr(page: Any, text: str) -> bool:
    visible = len("".join(text.split()))
    if visible >= _MIN_TEXT:
        sample = text[:2_000]
        return len(_NONSENSE.findall(sample)) > _MAX_NONSENSE_SHARE * len(sample)
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


def picture(document: Any, index: int, max_pixels: int) -> Image.Image | None:
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
