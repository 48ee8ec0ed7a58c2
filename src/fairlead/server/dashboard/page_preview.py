"""The preview of a page: its picture beside its text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from fairlead.model.documents import ResultFile

_PICTURE = re.compile(r"page-[0-9]{3,}\.png")


class PagePreview(NamedTuple):
    """The picture and text of a page. `number` counts the pages that have a picture."""

    picture: str
    text: str
    number: int
    pages: int


def is_picture(file: ResultFile) -> bool:
    return _PICTURE.fullmatch(file.name) is not None


def page_preview(text: str | None, files: Iterable[ResultFile], number: int) -> PagePreview | None:
    """The page with this number, or the nearest one; None: the document has no pictures."""
    pictures = sorted(file.name for file in files if is_picture(file))
    if not pictures:
        return None
    number = min(max(number, 1), len(pictures))
    picture = pictures[number - 1]
    texts = dict(enumerate((text or "").split("\f"), 1))
    page = int(picture.removeprefix("page-").removesuffix(".png"))
    return PagePreview(picture, texts.get(page, "").strip("\n"), number, len(pictures))
