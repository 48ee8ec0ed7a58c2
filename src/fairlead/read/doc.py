"""Old Word documents (doc), of Word 6 to 2003."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.doc_formatting import Formatting
from fairlead.read.doc_notes import NoteMark, note_marks
from fairlead.read.doc_styles import DocStyles, ParagraphRole
from fairlead.read.doc_text import WordText
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT, HEADINGS, NOTES, ErrorGuard
from fairlead.read.ole import decrypt_old_office, has_stream, open_ole
from fairlead.read.text_writer import TextWriter

_MAGICS = (0xA5EC, 0xA5DC)
_WORD_97 = 0x00C1
_ENCRYPTED, _SECOND_TABLE = 0x100, 0x200
_MAX_COLUMNS = 64
_CONTROLS = {"\x0b": "\n", "\x0e": "\n", "\x1e": "-", "\xa0": " "}  # others are dropped
_CONTROL = re.compile("[\x01-\x06\x08\x0b\x0e-\x12\x16-\x1f\xa0]")
_PARAGRAPH = re.compile("([^\r\x07\x0c]*)([\r\x07\x0c]|$)")
_PARAGRAPH_END, _CELL_END, _PAGE_END, _NOTE = "\r", "\x07", "\x0c", "\x02"
_TOKEN = re.compile("[\r\x07\x0c\x02]|[^\r\x07\x0c\x02]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


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
        table = ole.stream("1Table" if flags & _SECOND_TABLE else "0Table")
    writer = TextWriter(draft, gap=1)
    if version < _WORD_97:
        _write(_shown(WordText.of_word_6(main)), writer)
        return writer.finish()
    formatting = Formatting(main, table)
    text = WordText.of_word_97(main, table, formatting, 2 * draft.limits.characters)
    if formatting.has_paragraphs:
        _Paragraphs(text, formatting, main, table, draft.guard).write(writer)
    else:
        _write(_shown(text), writer)
    return writer.finish()


class _Paragraphs:
    """Writes paragraphs as headings, items and cells."""

    def __init__(
        self, text: WordText, formatting: Formatting, main: bytes, table: bytes, guard: ErrorGuard
    ) -> None:
        self._text = text
        self._guard = guard
        self._formatting = formatting
        self._styles: DocStyles | None = None
        self._marks: dict[int, NoteMark] = {}
        with guard(HEADINGS):
            self._styles = DocStyles(main, table)
        with guard(NOTES):
            self._marks = note_marks(main, table)
        self._parts: list[str | NoteMark] = []
        self._in_table = self._in_row = self._in_cell = False

    def write(self, writer: TextWriter) -> None:
        for start, end in self._text.shown():
            for match in _TOKEN.finditer(self._text.text, start, end):
                try:
                    self._take(match[0], match.start(), writer)
                except Exception as error:
                    self._guard.take(error)
                if writer.draft.full:
                    return
        with self._guard(CONTENT):
            self._end_paragraph(_PARAGRAPH_END, max(0, len(self._text.text) - 1), writer)

    def _take(self, token: str, number: int, writer: TextWriter) -> None:
        if token in (_PARAGRAPH_END, _CELL_END, _PAGE_END):
            self._end_paragraph(token, number, writer)
        elif token != _NOTE:
            self._parts.append(_visible(token))
        elif number in self._marks:
            self._parts.append(self._marks[number])

    def _end_paragraph(self, token: str, number: int, writer: TextWriter) -> None:
        parts, self._parts = self._parts, []
        if not self._text.text:
            return
        role = self._role(number)
        if role.ends_row:
            writer.end_row()
            self._in_row = self._in_cell = False
            return
        self._move(writer, into_table=role.in_table or token == _CELL_END)
        writer.begin(role.style)
        for part in parts:
            _write_part(part, writer)
        if token == _CELL_END:
            self._in_cell = False
        elif token == _PAGE_END:
            writer.part()

    def _role(self, number: int) -> ParagraphRole:
        if self._styles is None:
            return ParagraphRole()
        try:
            style, own = self._formatting.paragraph(self._text.place(number))
            return self._styles.next_paragraph(style, own)
        except Exception as error:
            self._guard.take(error, HEADINGS)
            return ParagraphRole()

    def _move(self, writer: TextWriter, *, into_table: bool) -> None:
        """Begin or end a table, row or cell before the next paragraph."""
        if not into_table:
            if self._in_table:
                writer.end_table()
            self._in_table = self._in_row = self._in_cell = False
            return
        if not self._in_table:
            writer.table()
        if not self._in_row:
            writer.row()
        if not self._in_cell:
            writer.cell()
        self._in_table = self._in_row = self._in_cell = True


def _write_part(part: str | NoteMark, writer: TextWriter) -> None:
    if isinstance(part, str):
        writer.write(part)
    elif part.before_note:
        writer.note(part.label)
    else:
        writer.reference(part.label)


def _visible(text: str) -> str:
    """Return the text without controls, and with pairs of surrogates as one character."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROL.sub(lambda control: _CONTROLS.get(control[0], ""), text)


def _shown(text: WordText) -> str:
    return "".join(text.text[start:end] for start, end in text.shown())


def _write(text: str, writer: TextWriter) -> None:
    """Write paragraphs and tables of a document without formatting.

    Character 7 ends a cell, and another one each row.
    """
    cells: list[str] = []
    for match in _PARAGRAPH.finditer(text):
        if match[2] == "\x07":
            cells.append(_visible(match[1]))
            continue
        with writer.draft.guard(CONTENT):
            _write_table(cells, writer)
        cells = []
        with writer.draft.guard(CONTENT):
            _write_paragraph(match[1], match[2], writer)
        if writer.draft.full:
            return
    with writer.draft.guard(CONTENT):
        _write_table(cells, writer)


def _write_paragraph(text: str, end: str, writer: TextWriter) -> None:
    writer.begin()
    writer.write(_visible(text))
    if end == _PAGE_END:
        writer.part()


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
    """Split cells into rows of a width that fits all, or otherwise at each empty cell."""
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
