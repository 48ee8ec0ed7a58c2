"""Pictures (png, jpeg, tiff, webp, bmp, gif): the text in them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial

from PIL import Image, ImageOps, ImageSequence

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.ocr import Ocr

_SIGNATURES: dict[str, tuple[bytes, ...]] = {
    "png": (b"\x89PNG\r\n\x1a\n",),
    "jpeg": (b"\xff\xd8\xff",),
    "tiff": (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"),
    "gif": (b"GIF87a", b"GIF89a"),
}
_MOST_PIXELS = 24_000_000  # for recognition: more does not help it
_TAKEN = (36867, 306)  # where cameras and scanners write when


def _has_signature(kind: str) -> Callable[[Source], bool]:
    return lambda source: source.head.startswith(_SIGNATURES[kind])


def _is_webp(source: Source) -> bool:
    return source.head[:4] == b"RIFF" and source.head[8:12] == b"WEBP"


def _is_bmp(source: Source) -> bool:
    # Two letters begin many texts: the size in the header settles it.
    size = int.from_bytes(source.head[14:18], "little")
    return source.head[:2] == b"BM" and len(source.head) > 26 and 12 <= size <= 124


def _read(kind: str, source: Source, task: Task) -> Extracted:
    draft = Draft(kind, library("pillow"), task.limits)
    with source.open() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is odd in a picture is not the reader's fault
        Image.MAX_IMAGE_PIXELS = None  # our own limit is asked before anything is unpacked
        with _opened(kind, file, draft) as image:
            _add_frames(image, draft, task)
    return draft.finish()


def _opened(kind: str, file: object, draft: Draft) -> Image.Image:
    try:
        image = Image.open(file, formats=[kind.upper()])  # type: ignore[arg-type] # any binary file
    except (OSError, SyntaxError, ValueError) as error:
        raise CannotRead("damaged", "The picture is damaged and could not be opened.") from error
    _check(image, draft)
    return image


def _check(image: Image.Image, draft: Draft) -> None:
    if image.width * image.height > draft.limits.pixels:
        size = f"{image.width} × {image.height}"
        most = draft.limits.pixels // 1_000_000
        detail = f"The picture of {size} points is too large; at most {most} million are read."
        raise CannotRead("too-large", detail)


def _add_frames(image: Image.Image, draft: Draft, task: Task) -> None:
    # Only pages are read one after another; films show much the same all the time.
    frames = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
    wanted = min(frames, task.limits.pages)
    draft.fact("pages", frames)
    if wanted < frames:
        draft.warn(f"only the first {wanted} of {frames} pages were read")
    _add_time(image, draft)
    ocr = Ocr(draft, task)
    for index, frame in enumerate(_frames(image, wanted, draft)):
        if not ocr.ready():
            return
        has_room = draft.add(("\n\f" if index else "") + ocr.read(frame))
        task.on_progress(index + 1, frames)
        if not has_room:
            return


def _frames(image: Image.Image, wanted: int, draft: Draft) -> Iterator[Image.Image]:
    frames = ImageSequence.Iterator(image)
    for index in range(wanted):
        try:
            frame = frames[index]
            _check(frame, draft)
            yield _grey(frame)
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            if index == 0:
                detail = "The picture is damaged and could not be read."
                raise CannotRead("damaged", detail) from error
            draft.warn(f"page {index + 1} is damaged and could not be read")


def _grey(frame: Image.Image) -> Image.Image:
    """The picture upright, in grey on white, and no larger than helps."""
    frame.draft("L", (frame.width, frame.height))
    if frame.mode in ("RGBA", "LA", "PA") or "transparency" in frame.info:
        seen = frame.convert("RGBA")
        white = Image.new("RGBA", seen.size, "white")
        grey = Image.alpha_composite(white, seen).convert("L")
    elif frame.mode.startswith(("I", "F")):
        grey = _scaled(frame)
    else:
        grey = frame.convert("L")
    grey = _turned(frame, grey)
    if grey.width * grey.height > _MOST_PIXELS:
        factor = (_MOST_PIXELS / (grey.width * grey.height)) ** 0.5
        grey = grey.resize((max(1, int(grey.width * factor)), max(1, int(grey.height * factor))))
    return grey


def _scaled(frame: Image.Image) -> Image.Image:
    """A picture of more than 256 greys, with the darkest black and the brightest white."""
    points = frame.convert("F")
    low, high = points.getextrema()
    if not isinstance(low, float) or not isinstance(high, float) or high <= low:
        return points.convert("L")
    return points.point(
        lambda value: value * (255 / (high - low)) - low * 255 / (high - low)
    ).convert("L")


def _turned(frame: Image.Image, grey: Image.Image) -> Image.Image:
    """As the camera says it was held."""
    orientation = frame.getexif().get(0x0112, 1)
    if orientation == 1:
        return grey
    grey.getexif()[0x0112] = orientation
    return ImageOps.exif_transpose(grey)


def _add_time(image: Image.Image, draft: Draft) -> None:
    found = image.getexif()
    taken = next((str(found[tag]) for tag in _TAKEN if tag in found), "")
    date, _, time = taken.partition(" ")
    draft.created(f"{date.replace(':', '-')}T{time}" if time else "")


READERS = (
    *(Reader(k, Rank.SIGNATURE, _has_signature(k), partial(_read, k)) for k in _SIGNATURES),
    Reader("webp", Rank.SIGNATURE, _is_webp, partial(_read, "webp")),
    Reader("bmp", Rank.SIGNATURE, _is_bmp, partial(_read, "bmp")),
)
