"""Pictures as people see them: upright, on white, in grey or colour."""

from __future__ import annotations

from PIL import Image, ImageOps

ORIENTATION = 0x0112  # a tag of cameras and scanners
_MODES = ("1", "L", "RGB")


def upright(frame: Image.Image) -> Image.Image:
    """Return an upright copy of the picture: black and white, grey, or in colours."""
    image = turned_upright(flattened(frame), orientation(frame))
    shown = image.copy() if image is frame else image
    shown.info = {"dpi": frame.info["dpi"]} if "dpi" in frame.info else {}
    return shown


def orientation(frame: Image.Image) -> int:
    return int(frame.getexif().get(ORIENTATION, 1))


def turned_upright(image: Image.Image, orientation: int) -> Image.Image:
    """Turn and mirror the picture by its orientation tag."""
    if orientation == 1:
        return image
    image = image.copy()
    image.getexif()[ORIENTATION] = orientation
    return ImageOps.exif_transpose(image)


def flattened(frame: Image.Image) -> Image.Image:
    """Return the picture without transparency, in one of three modes."""
    if frame.mode in ("RGBA", "LA", "PA") or "transparency" in frame.info:
        coloured = frame.convert("RGBA")
        white = Image.new("RGBA", coloured.size, "white")
        return Image.alpha_composite(white, coloured).convert("RGB")
    if frame.mode.startswith(("I", "F")):
        return _to_256_greys(frame)
    return frame if frame.mode in _MODES else frame.convert("RGB")


def _to_256_greys(frame: Image.Image) -> Image.Image:
    """Scale more than 256 greys so that the darkest is black and the brightest white."""
    points = frame.convert("F")
    low, high = points.getextrema()
    if not isinstance(low, float) or not isinstance(high, float) or high <= low:
        return points.convert("L")
    factor, offset = 255 / (high - low), low * 255 / (high - low)
    return points.point(lambda value: value * factor - offset).convert("L")
