"""A searchable PDF of pictures: each is a page, with its text at the place in the picture."""

from __future__ import annotations

import io
import struct
from typing import NamedTuple

from PIL import Image

from fairlead.read.outputs import fit, png
from fairlead.read.pdf_writer import PdfWriter, Picture
from fairlead.read.text_layer import TextLayer, Transform, turn_right

_POINTS = 72  # of an inch
_MIN_DPI = 100  # cameras and screens state fewer, which say nothing about paper
_MAX_DPI = 2_400
_LONG_SIDE = 842.0  # points of A4, where the size of the paper is unknown
_MAX_SIDE = 14_400.0
_MAX_PIXELS = 24_000_000
_QUALITY = 85
_SPACES = {"1": (b"/DeviceGray", 1, 1), "L": (b"/DeviceGray", 8, 1), "RGB": (b"/DeviceRGB", 8, 3)}
_UPWARDS = Transform(1, 0, 0, -1, 0, 1)  # in a PDF, y grows upwards


class Jpeg(NamedTuple):
    """A JPEG as it was submitted, to be turned right by so many degrees."""

    content: bytes
    width: int
    height: int
    mode: str
    turn: int


class PicturePdf:
    """Collects pages, up to so many bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._writer = PdfWriter()

    @property
    def is_full(self) -> bool:
        return self._writer.size > self._limit

    def add_page(
        self, image: Image.Image, layer: TextLayer, jpeg: Jpeg | None, *, is_exact: bool
    ) -> None:
        """Add a picture with its text. `is_exact`: compress a drawing without loss."""
        if self.is_full:
            return
        width, height = _paper(image)
        page = Transform(width, 0, 0, -height, 0, height)
        if jpeg is not None:
            picture, turn = _jpeg(jpeg), jpeg.turn
        else:
            image, turn = fit(image, _MAX_PIXELS), 0
            picture = _exact(image) if is_exact or image.mode == "1" else _compressed(image)
        drawn = _UPWARDS.then(turn_right(turn)).then(page)
        content = b"q %s cm /I Do Q\n%s" % (drawn.operands(), layer.content(page))
        self._writer.add_page((0, 0, width, height), content, picture)

    def content(self, limit: int) -> bytes | None:
        """Return the PDF; None if it is too large."""
        content = None if self.is_full else self._writer.finish()
        return content if content is not None and len(content) <= limit else None


def _paper(image: Image.Image) -> tuple[float, float]:
    """Return the size of the page in points."""
    dpi = image.info.get("dpi", (0, 0))
    if all(_MIN_DPI <= value <= _MAX_DPI for value in dpi):
        across, down = (float(value) for value in dpi)
    else:
        across = down = max(image.size) * _POINTS / _LONG_SIDE
    width, height = image.width * _POINTS / across, image.height * _POINTS / down
    shrunk = min(1.0, _MAX_SIDE / max(width, height))
    return width * shrunk, height * shrunk


def _jpeg(jpeg: Jpeg) -> Picture:
    space, bits, _ = _SPACES[jpeg.mode]
    attributes = b"/Filter /DCTDecode /ColorSpace %s /BitsPerComponent %d" % (space, bits)
    return Picture(jpeg.width, jpeg.height, attributes, jpeg.content)


def _compressed(image: Image.Image) -> Picture:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=_QUALITY)
    return _jpeg(Jpeg(file.getvalue(), *image.size, image.mode, 0))


def _exact(image: Image.Image) -> Picture:
    """Return the data of a PNG, which a PDF can contain unchanged."""
    content = png(image)
    bits, colours = content[24], content[25]
    space, components = (b"/DeviceRGB", 3) if colours else (b"/DeviceGray", 1)
    predictor = b"<</Predictor 15 /Colors %d /BitsPerComponent %d /Columns %d>>" % (
        *(components, bits, image.width),
    )
    attributes = b"/Filter /FlateDecode /DecodeParms %s /ColorSpace %s /BitsPerComponent %d" % (
        *(predictor, space, bits),
    )
    return Picture(*image.size, attributes, _png_data(content))


def _png_data(content: bytes) -> bytes:
    data, place = b"", 8
    while place < len(content):
        length, name = struct.unpack_from(">I4s", content, place)
        if name == b"IDAT":
            data += content[place + 8 : place + 8 + length]
        place += 12 + length
    return data
