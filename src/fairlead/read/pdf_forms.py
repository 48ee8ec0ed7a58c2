"""Counts the forms that a PDF draws within forms, before PDFium loads them all into memory."""

from __future__ import annotations

import math
import mmap
import re
import zlib
from functools import cached_property

_MAX_DRAWN = 100_000  # forms within one: about 150 MB
_MAX_FORMS = 5_000
_MAX_CONTENT = 4_000_000
_MAX_HEADER = 20_000
_OBJECT_START = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+obj$")
_REFERENCE = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+R\b")
_FORM = re.compile(rb"/Subtype\s*/Form\b")
_DRAW = re.compile(rb"\bDo\b")

Content = bytes | mmap.mmap


def draws_too_much(content: Content) -> bool:
    """Return whether one form of the PDF draws more forms than fit into memory.

    Forms can draw forms, so a few bytes can exceed any memory. PDFium draws them all when it loads
    a page, and ends the process when memory runs out, so they are counted in advance. The limits of
    the process still apply to forms that this count misses.
    """
    forms = _Forms(content)
    draws = [count for count, _ in forms.nested.values()]
    # An upper bound, however they are nested.
    if (len(draws) + 1) * math.prod(draws) <= _MAX_DRAWN:
        return False
    return any(forms.drawn(number) > _MAX_DRAWN for number in forms.nested)


class _Forms:
    """The forms of a PDF and what each draws."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._drawn: dict[int, int] = {}
        self.nested: dict[int, tuple[int, list[int]]] = {}  # draws, and objects it can draw
        for form, _ in zip(_FORM.finditer(content), range(_MAX_FORMS), strict=False):
            self._add(form.start())

    def drawn(self, number: int) -> int:
        """Return how many forms this one draws, itself included; at most one too many."""
        if number not in self._drawn:
            self._drawn[number] = 1  # a form that draws itself is not drawn again
            draws, drawable = self.nested.get(number, (0, []))
            most = max(map(self.drawn, self._forms_among(drawable)), default=0)
            self._drawn[number] = min(1 + draws * most, _MAX_DRAWN + 1)
        return self._drawn[number]

    def _add(self, at: int) -> None:
        start = self._content.rfind(b"obj", max(0, at - _MAX_HEADER), at)
        number = _object_number(self._content, start)
        stream = self._content.find(b"stream", at, at + _MAX_HEADER)
        if number is None or stream < 0:
            return
        header = self._content[start:stream]
        draws = len(_DRAW.findall(self._stream(header, stream)))
        if draws and b"/Resources" in header:
            self.nested[number] = draws, _references(header)

    def _stream(self, header: bytes, stream: int) -> bytes:
        end = self._content.find(b"endstream", stream, stream + _MAX_CONTENT)
        data = self._content[stream + 6 : end if end > 0 else stream + _MAX_CONTENT]
        if b"FlateDecode" not in header:
            return data
        try:
            return zlib.decompressobj().decompress(data.lstrip(b"\r\n"), _MAX_CONTENT)
        except zlib.error:
            return b""

    def _forms_among(self, numbers: list[int]) -> list[int]:
        """Return the forms, and the objects in lists of forms."""
        forms = []
        for number in numbers:
            forms.append(number)
            if number not in self.nested and number in self._places:
                at = self._places[number]
                forms.extend(_references(self._content[at : at + _MAX_HEADER])[:100])
        return forms

    @cached_property
    def _places(self) -> dict[int, int]:
        places = {}
        at = self._content.find(b"obj")
        while at > 0:
            number = _object_number(self._content, at)
            if number is not None:
                places[number] = at + 3
            at = self._content.find(b"obj", at + 3)
        return places


def _object_number(content: Content, at: int) -> int | None:
    """Return the number of the object that begins with the word `obj` at this place."""
    match = _OBJECT_START.search(content[max(0, at - 24) : at + 3]) if at > 0 else None
    return int(match[1]) if match else None


def _references(data: bytes) -> list[int]:
    # After the end of an object without a stream, others follow.
    own = data.partition(b"endobj")[0]
    return [int(match[1]) for match in _REFERENCE.finditer(own)]
