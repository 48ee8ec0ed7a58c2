"""Optional files of a document: pictures of its pages, and a searchable PDF."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

from PIL import Image, ImageChops

from fairlead.read.base import Task
from fairlead.read.draft import Draft
from fairlead.read.error_guard import PAGE_PICTURE, SEARCHABLE, PartName

PAGES = "pages"
SEARCHABLE_PDF = "searchable-pdf"
MAX_PICTURE_PIXELS = 2_500_000  # a little more than A4 with 150 dpi
_SEARCHABLE_NAME = "searchable.pdf"
_LATE = "reading took most of the time limit"
_COMPRESSION = 4  # of 9: half the time of the usual 6, and hardly larger


class Outputs:
    """Passes outputs on as soon as they are made; warns of outputs that the limits leave out."""

    def __init__(self, draft: Draft, task: Task) -> None:
        self._draft = draft
        self._task = task
        self._room = task.limits.output_bytes  # for pictures
        self._pictures = 0

    def wants(self, output: str) -> bool:
        return output in self._task.outputs

    def add_picture(
        self, number: int, pages: int, render: Callable[[], Image.Image | None]
    ) -> bool:
        """Make the picture of a page; False if a limit forbids more."""
        limit = self._task.limits.page_pictures
        if number > limit:
            return self._no_more(pages, f"the limit is {limit}")
        if self.is_late():
            return self._no_more(pages, _LATE)
        content = None
        with self._draft.guard(PAGE_PICTURE, PartName("page", number)) as part:
            content = _rendered(render)
        if content is None:
            if not part.failed:
                self._draft.warn(f"page {number} could not be made a picture")
            return True
        self._room -= len(content)
        if self._room < 0:
            return self._no_more(pages, "together they are too large")
        self._task.on_file(f"page-{number:03}.png", content)
        self._pictures += 1
        return True

    def _no_more(self, pages: int, reason: str) -> bool:
        self._draft.warn(f"only {self._pictures} of {pages} pages have a picture: {reason}")
        return False

    def add_searchable(self, make: Callable[[int], bytes | None]) -> None:
        """Make the searchable PDF. `make` gets the limit in bytes and returns None above it."""
        is_late = self.is_late()
        content = None
        with self._draft.guard(SEARCHABLE) as part:
            content = None if is_late else make(self._task.limits.output_bytes)
        if part.failed:
            return
        if content is None:
            reason = _LATE if is_late else "it is too large"
            self._draft.warn(f"{_SEARCHABLE_NAME} was left out: {reason}")
        else:
            self._task.on_file(_SEARCHABLE_NAME, content)

    def is_late(self) -> bool:
        return time.monotonic() > self._task.output_deadline


def _rendered(render: Callable[[], Image.Image | None]) -> bytes | None:
    image = render()
    return None if image is None else png(image)


def png(image: Image.Image) -> bytes:
    """Return the picture as PNG: in grey if it has no colours."""
    file = io.BytesIO()
    image = _without_colours(image)
    image.save(file, "PNG", compress_level=_COMPRESSION)
    return file.getvalue()


def fit(image: Image.Image, pixels: int) -> Image.Image:
    """Return the picture with at most so many pixels."""
    if image.width * image.height <= pixels:
        return image
    factor = (pixels / (image.width * image.height)) ** 0.5
    size = max(1, int(image.width * factor)), max(1, int(image.height * factor))
    # Dots of a picture in black and white become greys.
    return (image.convert("L") if image.mode == "1" else image).resize(size)


def _without_colours(image: Image.Image) -> Image.Image:
    if image.mode != "RGB":
        return image
    red, green, blue = image.split()
    is_grey = not (
        ImageChops.difference(red, green).getbbox() or ImageChops.difference(green, blue).getbbox()
    )
    return green if is_grey else image
