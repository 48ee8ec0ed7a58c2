"""Pictures (png, jpeg, tiff, webp, bmp, gif), read by OCR."""

from __future__ import annotations

import warnings
from functools import partial
from typing import NamedTuple

from PIL import Image, ImageSequence

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT, PROPERTIES
from fairlead.read.ocr import Ocr
from fairlead.read.outputs import fit
from fairlead.read.page_layout import PageContent
from fairlead.read.page_markdown import PageMarkdown
from fairlead.read.picture_outputs import PictureOutputs
from fairlead.read.text_layer import EMPTY_LAYER
from fairlead.read.upright import flattened, orientation, turned_upright, upright

_SIGNATURES: dict[str, tuple[bytes, ...]] = {
    "png": (b"\x89PNG\r\n\x1a\n",),
    "jpeg": (b"\xff\xd8\xff",),
    "tiff": (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"),
    "gif": (b"GIF87a", b"GIF89a"),
}
_MAX_OCR_PIXELS = 24_000_000  # more does not help recognition
_TIME_TAGS = (36867, 306)  # of cameras and scanners


def _has_signature(kind: str, source: Source) -> bool:
    return source.head.startswith(_SIGNATURES[kind])


def _is_webp(source: Source) -> bool:
    return source.head[:4] == b"RIFF" and source.head[8:12] == b"WEBP"


def _is_bmp(source: Source) -> bool:
    # Many texts begin with these letters: the size in the header decides.
    size = int.from_bytes(source.head[14:18], "little")
    return source.head[:2] == b"BM" and len(source.head) > 26 and 12 <= size <= 124


def _read(kind: str, source: Source, task: Task) -> Extracted:
    draft = Draft(kind, library("pillow"), task.limits)
    with source.open() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # oddities of a picture are not errors of the program
        Image.MAX_IMAGE_PIXELS = None  # _check_size applies the limit before unpacking
        with _open(kind, file, draft) as image:
            _add_frames(source, image, draft, task)
    return draft.finish()


def _open(kind: str, file: object, draft: Draft) -> Image.Image:
    try:
        image = Image.open(file, formats=[kind.upper()])  # type: ignore[arg-type] # any binary file
    except (OSError, SyntaxError, ValueError) as error:
        raise CannotRead("damaged", "The picture is damaged and could not be opened.") from error
    _check_size(image, draft)
    return image


def _check_size(image: Image.Image, draft: Draft) -> None:
    if image.width * image.height > draft.limits.pixels:
        size = f"{image.width} × {image.height}"
        most = draft.limits.pixels // 1_000_000
        detail = f"The picture of {size} points is too large; at most {most} million are read."
        raise CannotRead("too-large", detail)


def _add_frames(source: Source, image: Image.Image, draft: Draft, task: Task) -> None:
    frames = 1
    with draft.guard(CONTENT):
        # Only the frames of TIFF are pages; those of other kinds are an animation.
        frames = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
    frames_to_read = draft.limit_pages(frames)
    with draft.guard(PROPERTIES):
        draft.created(_time_taken(image))
    ocr = Ocr(draft, task)
    outputs = PictureOutputs(source, image, draft, task)
    markdown = PageMarkdown(draft)
    for index in range(frames_to_read):
        page = PageContent("", [])
        with draft.guard.page(index + 1):
            frame = _frame(image, index, draft, task)
            if not (ocr.ready() or task.outputs):
                return
            page = _read_frame(frame, index + 1, frames, ocr, outputs)
        has_room = draft.add(("\n\f" if index else "") + page.text)
        markdown.add_page(index + 1, page)
        task.on_progress(index + 1, frames)
        if not has_room:
            break
    outputs.finish()
    markdown.write()


def _time_taken(image: Image.Image) -> str:
    exif = image.getexif()
    time_taken = next((str(exif[tag]) for tag in _TIME_TAGS if tag in exif), "")
    date, _, time = time_taken.partition(" ")
    return f"{date.replace(':', '-')}T{time}" if time else ""


class _Frame(NamedTuple):
    """A page in grey for OCR, and as people see it if outputs are wanted."""

    grey: Image.Image
    shown: Image.Image | None


def _frame(image: Image.Image, index: int, draft: Draft, task: Task) -> _Frame:
    frame = ImageSequence.Iterator(image)[index]
    _check_size(frame, draft)
    shown = upright(frame) if task.outputs else None
    return _Frame(_grey(frame), shown)


def _read_frame(
    frame: _Frame, number: int, frames: int, ocr: Ocr, outputs: PictureOutputs
) -> PageContent:
    """Read the text of a page, and make its outputs, even if the text cannot be read."""
    layer = EMPTY_LAYER
    try:
        content, layer = ocr.read(frame.grey)
        return content
    finally:
        if frame.shown is not None:
            outputs.add(number, frames, frame.shown, layer)


def _grey(frame: Image.Image) -> Image.Image:
    """Return the picture upright, in grey on white, and no larger than helps recognition."""
    frame.draft("L", (frame.width, frame.height))
    grey = turned_upright(flattened(frame).convert("L"), orientation(frame))
    return fit(grey, _MAX_OCR_PIXELS)


READERS = (
    *(
        Reader(kind, Rank.SIGNATURE, partial(_has_signature, kind), partial(_read, kind))
        for kind in _SIGNATURES
    ),
    Reader("webp", Rank.SIGNATURE, _is_webp, partial(_read, "webp")),
    Reader("bmp", Rank.SIGNATURE, _is_bmp, partial(_read, "bmp")),
)
