"""Old Word documents (doc), of Word 6 to 2003."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.doc_formatting import Formatting
from fairlead.read.draft import Draft
from fairlead.read.ole import decrypt_old_office, has_stream, open_ole
from fairlead.read.text_writer import TextWriter

_MAGICS = (0xA5EC, 0xA5DC)
_WORD_97 = 0x00C1
_ENCRYPTED, _SECOND_TABLE = 0x100, 0x200
_CLX = 0x01A2  # the place in the header that locates the table of pieces
_FIELD_MARK = re.compile("[\x13-\x15]")
_MAX_COLUMNS = 64
_CONTROLS = {"\x0b": "\n", "\x0e": "\n", "\x1e": "-", "\xa0": " "}  # others are dropped
_CONTROL = re.compile("[\x01-\x06\x08\x0b\x0e-\x12\x16-\x1f\xa0]")
_PARAGRAPH = re.compile("([^\r\x07\x0c]*)([\r\x07\x0c]|$)")


def _read(source: Source, task: Task) -> Extracted:
    """The main text, then footnotes, headers and other texts."""
    draft = Draft("doc", library("olefile"), task.limits)
    with open_ole(source, task) as ole:
        main = ole.stream("WordDocument")
        if len(main) < 0x60 or struct.unpack_from("<H", main)[0] not in _MAGICS:
            raise CannotRead("damaged", "The Word document is damaged: its header is missing.")
        version, flags = struct.unpack_from("<H6xH", main, 2)
        if flags & _ENCRYPTED:
            return _read(decrypt_old_office(source, task), task)
        ole.add_properties(draft)
        if version < _WORD_97:
            start, end = struct.unpack_from("<II", main, 0x18)
            text = main[start:end].decode("cp1252", "replace")
            removed = list(_field_codes(text))
        else:
            table = ole.stream("1Table" if flags & _SECOND_TABLE else "0Table")
            pieces = list(_pieces(main, table, draft))
            text = "".join(_decoded(main, piece) for piece in pieces)
            deleted = Formatting(main, table).deleted()
            removed = [*_field_codes(text), *_deleted(pieces, deleted)]
    writer = TextWriter(draft, gap=1)
    _write(_without(text, removed), writer)
    return writer.finish()


class _Piece(NamedTuple):
    """A piece of the text: its first character's number, and where it lies in the stream."""

    first: int
    length: int
    place: int
    width: int  # bytes of a character


def _pieces(main: bytes, table: bytes, draft: Draft) -> Iterator[_Piece]:
    """Yield the pieces of the text, which may lie anywhere in the stream."""
    at, size = struct.unpack_from("<II", main, _CLX)
    limit = draft.limits.characters * 2
    first = 0
    for place, count, narrow in _places(table[at : at + size]):
        width = 1 if narrow else 2
        length = min(count, limit - first, max(0, len(main) - place) // width)
        yield _Piece(first, length, place, width)
        first += length
        if first >= limit:
            return


def _decoded(main: bytes, piece: _Piece) -> str:
    """Decode a piece to as many characters as it says: a pair of surrogates stays two."""
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


def _deleted(pieces: list[_Piece], deleted: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
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


def _without(text: str, removed: list[tuple[int, int]]) -> str:
    kept: list[str] = []
    at = 0
    for start, end in sorted(removed):
        kept.append(text[at:start])
        at = max(at, end)
    kept.append(text[at:])
    whole = "".join(kept)
    return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _write(text: str, writer: TextWriter) -> None:
    """Write paragraphs and tables; character 7 ends a cell, and another one each row."""
    cells: list[str] = []
    for match in _PARAGRAPH.finditer(text):
        paragraph = _CONTROL.sub(lambda control: _CONTROLS.get(control[0], ""), match[1])
        if match[2] == "\x07":
            cells.append(paragraph)
            continue
        _write_table(cells, writer)
        cells = []
        writer.begin()
        writer.write(paragraph)
        if match[2] == "\x0c":
            writer.part()
        if writer.draft.full:
            return
    _write_table(cells, writer)


def _write_table(cells: list[str], writer: TextWriter) -> None:
    if not cells:
        return
    writer.table()
    for row in _rows(cells):
        writer.row()
        for cell in row:
            writer.cell()
            writer.write(cell)
    writer.end_table()


def _rows(cells: list[str]) -> Iterator[list[str]]:
    """Split cells into rows of the width that fits all, or else at each empty cell."""
    for width in range(1, min(_MAX_COLUMNS, len(cells))):
        step = width + 1
        if len(cells) % step == 0 and not any(cells[width::step]):
            yield from (cells[at : at + width] for at in range(0, len(cells), step))
            return
    row: list[str] = []
    for cell in cells:
        if cell:
            row.append(cell)
        elif row:
            yield row
            row = []
    if row:
        yield row


READER = Reader("doc", Rank.SIGNATURE, lambda source: has_stream(source, "WordDocument"), _read)
