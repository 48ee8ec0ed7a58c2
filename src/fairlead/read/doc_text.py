"""The text of an old Word document: its pieces, without field codes and deleted text."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from fairlead.read.base import CannotRead
from fairlead.read.doc_formatting import Formatting, table_part

_CLX = 0x01A2  # the place in the header that locates the table of pieces
_FIELD_MARK = re.compile("[\x13-\x15]")


class Piece(NamedTuple):
    """A piece of the text: the number of its first character, and its place in the stream."""

    first: int
    length: int
    place: int
    width: int  # bytes of a character


def _pieces(main: bytes, table: bytes, limit: int) -> Iterator[Piece]:
    """Yield the pieces of the text, which may lie anywhere in the stream."""
    first = 0
    for place, count, narrow in _places(table_part(main, table, _CLX)):
        width = 1 if narrow else 2
        length = min(count, limit - first, max(0, len(main) - place) // width)
        yield Piece(first, length, place, width)
        first += length
        if first >= limit:
            return


def _decoded(main: bytes, piece: Piece) -> str:
    """Decode a piece to the stated number of characters: a pair of surrogates stays two."""
    raw = main[piece.place : piece.place + piece.width * piece.length]
    if piece.width == 1:
        return raw.decode("cp1252", "replace")
    text = raw.decode("utf-16-le", "replace")
    if len(text) == piece.length:
        return text
    return "".join(map(chr, struct.unpack(f"<{piece.length}H", raw)))


def _places(clx: bytes) -> Iterator[tuple[int, int, bool]]:
    """Yield each piece's offset, number of characters, and whether they have one byte each."""
    at = 0
    while at + 3 <= len(clx) and clx[at] == 1:  # changes of paragraphs
        at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
    if at + 5 > len(clx) or clx[at] != 2:
        raise CannotRead("damaged", "The Word document is damaged: its text cannot be found.")
    (size,) = struct.unpack_from("<I", clx, at + 1)
    pieces = clx[at + 5 : at + 5 + size]
    count = max(0, (len(pieces) - 4) // 12)
    ends = struct.unpack_from(f"<{count + 1}I", pieces)
    for index in range(count):
        (place,) = struct.unpack_from("<I", pieces, 4 * (count + 1) + 8 * index + 2)
        length = max(0, ends[index + 1] - ends[index])
        narrow = bool(place & 0x40000000)
        offset = place & 0x3FFFFFFF
        yield (offset // 2 if narrow else offset), length, narrow


def _field_codes(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of codes: a field is a code, perhaps a result, and an end."""
    fields: list[list[int]] = []
    for match in _FIELD_MARK.finditer(text):
        if match[0] == "\x13":
            fields.append([match.start()])
        elif fields and match[0] == "\x14":
            fields[-1].append(match.end())
        elif fields:
            code, *result = fields.pop()
            yield code, result[0] if result else match.end()


def _deleted(pieces: list[Piece], deleted: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the characters that lie in the deleted places."""
    ends = [end for _, end in deleted]
    for piece in pieces:
        stop = piece.place + piece.length * piece.width
        for index in range(bisect_right(ends, piece.place), len(deleted)):
            start, end = deleted[index]
            if start >= stop:
                break
            first = (max(start, piece.place) - piece.place) // piece.width
            last = (min(end, stop) - piece.place) // piece.width
            yield piece.first + first, piece.first + last


class WordText:
    """The characters of a document, by the numbers that Word gives them."""

    def __init__(self, text: str, pieces: list[Piece], hidden: list[tuple[int, int]]) -> None:
        self.text = text
        self._pieces = pieces
        self._firsts = [piece.first for piece in pieces]
        self._hidden = sorted([*_field_codes(text), *hidden])

    @classmethod
    def of_word_6(cls, main: bytes) -> WordText:
        start, end = struct.unpack_from("<II", main, 0x18)
        return cls(main[start:end].decode("cp1252", "replace"), [], [])

    @classmethod
    def of_word_97(cls, main: bytes, table: bytes, formatting: Formatting, limit: int) -> WordText:
        """Read at most `limit` characters; those that a tracked change deletes are hidden."""
        pieces = list(_pieces(main, table, limit))
        text = "".join(_decoded(main, piece) for piece in pieces)
        return cls(text, pieces, list(_deleted(pieces, formatting.deleted())))

    def shown(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of characters that are neither field codes nor deleted."""
        at = 0
        for start, end in self._hidden:
            if start > at:
                yield at, start
            at = max(at, end)
        yield at, len(self.text)

    def place(self, number: int) -> int:
        """Return the place of a character in the stream."""
        piece = self._pieces[bisect_right(self._firsts, number) - 1]
        return piece.place + piece.width * (number - piece.first)
