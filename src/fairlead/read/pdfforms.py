"""PDFs that draw forms within forms within forms: few bytes that become more than any memory.

PDFium draws them all when it loads a page and ends the process when memory runs out, so they are
counted before. What hides from this count still meets the limits of the process.
"""

from __future__ import annotations

import math
import mmap
import re
import zlib
from functools import cached_property

MOST_DRAWN = 100_000  # forms within one: about 150 MB
_MOST_FORMS = 5_000
_MOST_CONTENT = 4_000_000
_LONGEST_HEAD = 20_000
_OBJECT = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+obj$")
_REFERENCE = re.compile(rb"(?<!\d)(\d{1,10})\s+\d{1,5}\s+R\b")
_FORM = re.compile(rb"/Subtype\s*/Form\b")
_DRAW = re.compile(rb"\bDo\b")

Content = bytes | mmap.mmap


def draws_too_much(content: Content) -> bool:
    """Whether one form of the PDF draws more forms than can be held in memory."""
    forms = _Forms(content)
    draws = [count for count, _ in forms.nested.values()]
    # However they are nested, it cannot be more than this.
    if (len(draws) + 1) * math.prod(draws) <= MOST_DRAWN:
        return False
    return any(forms.drawn(number) > MOST_DRAWN for number in forms.nested)


class _Forms:
    """The forms of a PDF and what each draws."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._drawn: dict[int, int] = {}
        self.nested: dict[int, tuple[int, list[int]]] = {}  # draws, and what may be drawn
        for found, _ in zip(_FORM.finditer(content), range(_MOST_FORMS), strict=False):
            self._add(found.start())

    def drawn(self, number: int) -> int:
        """How many forms drawing this one draws, itself included; at most a bit too many."""
        if number not in self._drawn:
            self._drawn[number] = 1  # what draws itself is not drawn again
            draws, drawable = self.nested.get(number, (0, []))
            most = max(map(self.drawn, self._forms_among(drawable)), default=0)
            self._drawn[number] = min(1 + draws * most, MOST_DRAWN + 1)
        return self._drawn[number]

    def _add(self, at: int) -> None:
        start = self._content.rfind(b"obj", max(0, at - _LONGEST_HEAD), at)
        number = _number_before(self._content, start)
        stream = self._content.find(b"stream", at, at + _LONGEST_HEAD)
        if number is None or stream < 0:
            return
        head = self._content[start:stream]
        draws = len(_DRAW.findall(self._stream(head, stream)))
        if draws and b"/Resources" in head:
            self.nested[number] = draws, _references(head)

    def _stream(self, head: bytes, stream: int) -> bytes:
        end = self._content.find(b"endstream", stream, stream + _MOST_CONTENT)
        data = self._content[stream + 6 : end if end > 0 else stream + _MOST_CONTENT]
        if b"FlateDecode" not in head:
            return data
        try:
            return zlib.decompressobj().decompress(data.lstrip(b"\r\n"), _MOST_CONTENT)
        except zlib.error:
            return b""

    def _forms_among(self, numbers: list[int]) -> list[int]:
        """Those that are forms, or lists of forms."""
        found = []
        for number in numbers:
            if number in self.nested or number not in self._places:
                found.append(number)
                continue
            at = self._places[number]
            found.extend([number, *_references(self._content[at : at + _LONGEST_HEAD])[:100]])
        return found

    @cached_property
    def _places(self) -> dict[int, int]:
        found = {}
        at = self._content.find(b"obj")
        while at > 0:
            number = _number_before(self._content, at)
            if number is not None:
                found[number] = at + 3
            at = self._content.find(b"obj", at + 3)
        return found


def _number_before(content: Content, at: int) -> int | None:
    """The number of the object that begins with the word `obj` at this place."""
    found = _OBJECT.search(content[max(0, at - 24) : at + 3]) if at > 0 else None
    return int(found[1]) if found else None


def _references(data: bytes) -> list[int]:
    # Of an object that is no stream, what follows belongs to others.
    own = data.partition(b"endobj")[0]
    return [int(found[1]) for found in _REFERENCE.finditer(own)]
