"""Finds the ruling lines of a scanned page, and removes them for a second reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from PIL import Image, ImageChops

from fairlead.read.page_layout import Ruling

_BLOCK = 32  # pixels, looked at together
_BLOCKS = 3  # in a row are a line: no letter of usual size has a stroke as long
_THICK = 14  # pixels: what is thicker is an area
_INK = 215  # darker pixels belong to lines, with the grey at their edges
_FULL = 200  # of 255, the ink in a block of a line
_PART = 60  # the ink in the block in which a line ends
_EDGE = 2  # pixels beside a line that are taken off with it
_MAX_PIXELS = 25_000_000  # copies of larger pictures would need too much memory
_RUN = re.compile(b"\xff+")


class RuledPicture(NamedTuple):
    """The ruling lines in a picture, in pixels, and the picture without them."""

    rulings: list[Ruling]
    without: Image.Image


def ruled_picture(image: Image.Image) -> RuledPicture:
    """Find horizontal and vertical lines in a grey picture."""
    if image.width * image.height > _MAX_PIXELS:
        return RuledPicture([], image)
    ink = image.point(_darker_than(_INK))
    across = _lines(ink)
    down = _lines(ink.transpose(Image.Transpose.TRANSPOSE))
    rulings = [
        *_rulings(across),
        *(Ruling(r.top, r.left, r.bottom, r.right) for r in _rulings(down)),
    ]
    if not rulings:
        return RuledPicture([], image)
    turned = _grown(down, image.height, image.width).transpose(Image.Transpose.TRANSPOSE)
    without = image.copy()
    without.paste(255, mask=ImageChops.lighter(_grown(across, image.width, image.height), turned))
    return RuledPicture(rulings, without)


def _darker_than(level: int) -> list[int]:
    return [255 if value < level else 0 for value in range(256)]


def _lighter_than(level: int) -> list[int]:
    return [255 if value > level else 0 for value in range(256)]


def _lines(ink: Image.Image) -> Image.Image:
    """Return a picture of the horizontal lines; each of its pixels is a block one pixel high."""
    blocks = -(-ink.width // _BLOCK)
    padded = ink.crop((0, 0, blocks * _BLOCK, ink.height))
    share = padded.resize((blocks, ink.height), Image.Resampling.BOX)
    # A line that is not quite level continues in the next row of pixels.
    full = _combined(ImageChops.lighter, share.point(_lighter_than(_FULL)), [(0, 1), (0, -1)])
    starts = _combined(ImageChops.darker, full, [(x, 0) for x in range(1, _BLOCKS)])
    lines = _combined(ImageChops.lighter, starts, [(-x, 0) for x in range(1, _BLOCKS)])
    beside = ImageChops.lighter(_moved(lines, 1, 0), _moved(lines, -1, 0))
    ends = ImageChops.darker(share.point(_lighter_than(_PART)), beside)
    lines = ImageChops.lighter(lines, ends)
    areas = _combined(ImageChops.darker, lines, [(0, y) for y in range(1, _THICK)])
    if areas.getbbox():
        around = _combined(ImageChops.lighter, areas, [(0, y) for y in range(-_THICK - 2, 4)])
        lines = ImageChops.subtract(lines, around)
    return lines


def _combined(
    combine: Callable[[Image.Image, Image.Image], Image.Image],
    image: Image.Image,
    moves: list[tuple[int, int]],
) -> Image.Image:
    return reduce(combine, (_moved(image, x, y) for x, y in moves), image)


def _moved(image: Image.Image, x: int, y: int) -> Image.Image:
    moved = Image.new("L", image.size, 0)
    moved.paste(image, (x, y))
    return moved


def _grown(lines: Image.Image, width: int, height: int) -> Image.Image:
    """Return the pixels of the picture that belong to lines."""
    edges = [(0, y) for y in range(-_EDGE, _EDGE + 1)]
    grown = _combined(ImageChops.lighter, lines, edges)
    full_size = (grown.width * _BLOCK, height)
    return grown.resize(full_size, Image.Resampling.NEAREST).crop((0, 0, width, height))


def _rulings(lines: Image.Image) -> Iterator[Ruling]:
    """Yield each horizontal line once, level, at its middle: a scan is never quite straight."""
    open_lines: list[_Line] = []
    for y, left, right in _runs(lines):
        ended = [line for line in open_lines if line.bottom < y - _EDGE]
        yield from (line.ruling() for line in ended)
        open_lines = [line for line in open_lines if line.bottom >= y - _EDGE]
        for line in open_lines:
            if left <= line.last[1] and right >= line.last[0]:
                line.add(y, left, right)
                break
        else:
            open_lines.append(_Line(y, y, left, right, (left, right)))
    yield from (line.ruling() for line in open_lines)


@dataclass(slots=True)
class _Line:
    top: int
    bottom: int
    left: int
    right: int
    last: tuple[int, int]  # of the rows of pixels looked at

    def add(self, y: int, left: int, right: int) -> None:
        self.bottom, self.last = y, (left, right)
        self.left, self.right = min(self.left, left), max(self.right, right)

    def ruling(self) -> Ruling:
        middle = (self.top + self.bottom) / 2
        return Ruling(self.left * _BLOCK, middle, self.right * _BLOCK, middle)


def _runs(lines: Image.Image) -> Iterator[tuple[int, int, int]]:
    """Yield y, left and right of each run of blocks, from top to bottom."""
    box = lines.getbbox()
    if box is None:
        return
    pixels, width = lines.tobytes(), lines.width
    for y in range(box[1], box[3]):
        for run in _RUN.finditer(pixels, y * width, (y + 1) * width):
            yield y, run.start() - y * width, run.end() - y * width
