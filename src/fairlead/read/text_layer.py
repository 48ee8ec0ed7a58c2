"""The words that OCR recognised in a picture, as invisible text of a PDF page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from fairlead.read.blank_font import DESCENT, UNITS
from fairlead.read.page_layout import Line, Word

_INVISIBLE = 3


class Transform(NamedTuple):
    """x' = a·x + c·y + e, y' = b·x + d·y + f."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float

    def then(self, after: Transform) -> Transform:
        """Return this transformation followed by another."""
        a, b, c, d, e, f = self
        return Transform(
            *after.vector(a, b),
            *after.vector(c, d),
            *after.point(e, f),
        )

    def vector(self, x: float, y: float) -> tuple[float, float]:
        return self.a * x + self.c * y, self.b * x + self.d * y

    def point(self, x: float, y: float) -> tuple[float, float]:
        x_part, y_part = self.vector(x, y)
        return x_part + self.e, y_part + self.f

    def operands(self) -> bytes:
        return " ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in self).encode()


# Pictures have the size 1 × 1 here, and y grows downwards.
_TURNED_RIGHT = {
    0: Transform(1, 0, 0, 1, 0, 0),
    90: Transform(0, 1, -1, 0, 1, 0),
    180: Transform(-1, 0, 0, -1, 1, 1),
    270: Transform(0, -1, 1, 0, 0, 1),
}


class TextLayer(NamedTuple):
    """Lines of words in a picture of this size, which OCR had turned left by so many degrees."""

    lines: list[Line]
    width: int
    height: int
    turned: int = 0

    def content(self, page: Transform) -> bytes:
        """Return the text as operators; `page` maps the picture, as 1 × 1, to the page."""
        if not self.lines:
            return b""
        to_unit = Transform(1 / self.width, 0, 0, 1 / self.height, 0, 0)
        picture = to_unit.then(_TURNED_RIGHT[self.turned]).then(page)
        shown = b"\n".join(
            b"%s Tm <%s> Tj" % (place.then(picture).operands(), codes)
            for line in self.lines
            for place, codes in _words(line)
        )
        return b"q BT %d Tr /F 1 Tf\n%s\nET Q\n" % (_INVISIBLE, shown)


EMPTY_LAYER = TextLayer([], 1, 1)


def turn_right(degrees: int) -> Transform:
    """Return the transform that turns a picture of size 1 × 1 by 0, 90, 180 or 270 degrees."""
    return _TURNED_RIGHT[degrees]


def _words(line: Line) -> Iterator[tuple[Transform, bytes]]:
    """Yield the place of each word in the picture, stretched to its width, and its codes.

    A space fills the gap to the next word, so that programs need not guess it.
    """
    for word, following in pairwise([*line.words, None]):
        assert word is not None  # noqa: S101 (only the last one is)
        if placed := _placed(word):
            yield placed
        if following is not None and following.left > word.right:
            gap = word._replace(text=" ", left=word.right, right=following.left)
            yield from filter(None, [_placed(gap)])


def _placed(word: Word) -> tuple[Transform, bytes] | None:
    codes = word.text.encode("utf-16-be", "ignore")
    width, height = word.right - word.left, word.bottom - word.top
    if not codes or width <= 0 or height <= 0:
        return None
    baseline = word.bottom - height * DESCENT / UNITS
    stretched = width / (len(codes) // 2)
    return Transform(stretched, 0, 0, -height, word.left, baseline), codes.hex().encode()
