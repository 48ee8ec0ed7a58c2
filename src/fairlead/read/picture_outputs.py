"""The outputs of pictures: their pages as PNG, and all of them as a searchable PDF."""

from __future__ import annotations

from functools import partial

from PIL import Image

from fairlead.read.base import Source, Task
from fairlead.read.draft import Draft
from fairlead.read.error_guard import NOT_SEARCHABLE, PROPERTIES, TEXT_LAYER
from fairlead.read.outputs import MAX_PICTURE_PIXELS, PAGES, SEARCHABLE_PDF, Outputs, fit
from fairlead.read.picture_pdf import Jpeg, PicturePdf
from fairlead.read.text_layer import EMPTY_LAYER, TextLayer
from fairlead.read.upright import orientation

_TURNS = {1: 0, 6: 90, 3: 180, 8: 270}  # by orientation; others are mirrored
_DRAWINGS = ("PNG", "GIF", "BMP")  # without loss: they may be drawings or screens


class PictureOutputs:
    """Makes the outputs of a picture with one or more pages."""

    def __init__(self, source: Source, image: Image.Image, draft: Draft, task: Task) -> None:
        self._guard = draft.guard
        self._outputs = Outputs(draft, task)
        self._has_pictures = self._outputs.wants(PAGES)
        self._pdf = None
        if self._outputs.wants(SEARCHABLE_PDF):
            self._pdf = PicturePdf(task.limits.output_bytes)
            self._jpeg: Jpeg | None = None
            with draft.guard(PROPERTIES):
                self._jpeg = _jpeg(source, image, task.limits.output_bytes)
            self._is_exact = image.format in _DRAWINGS

    def add(self, number: int, pages: int, image: Image.Image, layer: TextLayer) -> None:
        if self._has_pictures:
            self._has_pictures = self._outputs.add_picture(
                number, pages, lambda: fit(image, MAX_PICTURE_PIXELS)
            )
        if self._pdf is not None and not self._outputs.is_late():
            self._add_searchable(self._pdf, image, layer)

    def _add_searchable(self, pdf: PicturePdf, image: Image.Image, layer: TextLayer) -> None:
        add = partial(pdf.add_page, image, jpeg=self._jpeg, is_exact=self._is_exact)
        with self._guard(TEXT_LAYER) as part:
            add(layer)
        if part.failed:
            with self._guard(NOT_SEARCHABLE):
                add(EMPTY_LAYER)

    def finish(self) -> None:
        if self._pdf is not None:
            self._outputs.add_searchable(self._pdf.content)


def _jpeg(source: Source, image: Image.Image, limit: int) -> Jpeg | None:
    """Return the JPEG as it was submitted, if a PDF can contain it unchanged."""
    turn = _TURNS.get(orientation(image))
    if image.format != "JPEG" or image.mode not in ("L", "RGB") or turn is None:
        return None
    return Jpeg(source.read(limit + 1), *image.size, image.mode, turn)
