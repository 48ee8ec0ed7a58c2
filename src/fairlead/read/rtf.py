"""Rich Text (rtf)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from fairlead.read.base import Extracted, Rank, Reader, Source, Task
from fairlead.read.draft import Draft
from fairlead.read.numbering import roman
from fairlead.read.text_writer import PLAIN, Style, TextWriter, heading, item

_MAX_DEPTH = 1_000
_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|[\r\n]+|([^\\{}\r\n]+)",
    re.DOTALL,
)
# fmt: off
_LEFT_OUT = frozenset([
    b"fonttbl", b"colortbl", b"stylesheet", b"info", b"pict", b"object", b"objdata", b"themedata",
    b"colorschememapping", b"datastore", b"listtable", b"listoverridetable", b"rsidtbl",
    b"xmlnstbl", b"generator", b"fldinst", b"filetbl", b"revtbl", b"bkmkstart", b"bkmkend",
    b"nonshppict", b"template", b"latentstyles", b"pgptbl", b"mmathPr",
    b"atnid", b"atnauthor", b"annotation", b"xe", b"tc", b"htmltag", b"wgrffmtfilter",
    b"pnseclvl", b"ftnsep", b"ftnsepc", b"ftncn", b"sp", b"nesttableprops", b"nonesttables",
    b"aftnsep", b"aftnsepc", b"aftncn",
])
_CHARACTERS = {
    b"tab": "\t", b"line": "\n", b"emdash": "—", b"endash": "–", b"emspace": " ", b"enspace": " ",
    b"bullet": "•", b"lquote": "‘", b"rquote": "’", b"ldblquote": "“", b"rdblquote": "”",
    b"qmspace": " ", b"zwj": "", b"zwnj": "", b"ltrmark": "", b"rtlmark": "",
}
_CHARSETS = {
    0: "cp1252", 77: "mac-roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250",
}
# fmt: on
_LABELS = frozenset([b"listtext", b"pntext"])  # the number or bullet of an item, as shown
_MAX_LABEL = 60
_NOTE = re.compile(rb"\\footnote(\s*\\ftnalt)?")
_NOTE_BYTES = 200  # from the mark in the text to the note
_TEXT_BOX = frozenset([b"shpinst", b"shptxt"])
_READ_THROUGH = frozenset([b"fonttbl", b"info", b"title", b"author"])
_GROUP = re.compile(rb"[{}]|\\[{}\\]|\\bin(\d{1,10}) ?")
_INFO = {b"title": "title", b"author": "author"}
_DESTINATIONS = _LEFT_OUT | _LABELS | _INFO.keys() | {b"footnote"}


@dataclass(frozen=True, slots=True)
class _State:
    """Settings that a group inherits from the group around it."""

    left_out: bool = False
    info: str = ""
    skip: int = 1  # characters that repeat a Unicode one for older programs
    font: int = -1
    in_fonts: bool = False
    hidden: bool = False
    deleted: bool = False  # by a tracked change
    in_label: bool = False
    in_note: bool = False


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """The role of a paragraph."""

    outline: int | None = None
    depth: int = 0
    is_item: bool = False
    label: str = ""

    def style(self) -> Style:
        label = self.label.strip()
        # A lone letter is a bullet in a font of signs.
        if (label.isalpha() and len(label) == 1) or not any(map(str.isalnum, label)):
            label = ""
        if self.outline is not None:
            return heading(self.outline + 1, label)
        return item(self.depth, label=label) if self.is_item else PLAIN


def _recognises(source: Source) -> bool:
    return source.head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{\\rtf")


def _read(source: Source, task: Task) -> Extracted:
    """The text with its tables and lists; pictures and field codes are left out."""
    writer = TextWriter(Draft("rtf", "Fairlead rtf", task.limits), gap=1)
    write_rtf(source.read(source.size), writer)
    return writer.finish()


def write_rtf(data: bytes, writer: TextWriter) -> None:
    """Write the text of Rich Text."""
    _Parser(writer).run(data)


def _group_end(data: bytes, at: int) -> int:
    """Return the end of the current group, by counting braces."""
    depth = 0
    while match := _GROUP.search(data, at):
        at = match.end() + int(match[1] or 0)
        if match[0] == b"{":
            depth += 1
        elif match[0] == b"}":
            depth -= 1
            if depth < 0:
                return match.start()
    return len(data)


class _Parser:
    def __init__(self, writer: TextWriter) -> None:
        self._writer = writer
        self._state = _State()
        self._stack: list[_State] = []
        self._bytes = bytearray()
        self._unicode: list[int] = []
        self._to_skip = 0
        self._encodings: dict[int, str] = {}  # of fonts
        self._default_encoding = "cp1252"
        self._is_optional = False
        self._skip_group = False
        self._info: dict[str, str] = {}
        self._in_table = False
        self._in_row = False
        self._paragraph_now = _Paragraph()
        self._outside_notes: list[_Paragraph] = []
        self._note_counts = {"footnote": 0, "endnote": 0}
        self._note_label = ""
        self._next = (b"", 0)  # the data, and where the next token begins

    def run(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self._writer.draft.full:
            token = _TOKEN.match(data, at)
            if token is None:
                at += 1  # a backslash at the very end
                continue
            self._next = (data, token.end())
            at = token.end()
            try:
                at += self._handle(token)
            except Exception as error:
                self._writer.draft.guard.take(error)
            if self._skip_group:
                self._skip_group = False
                at = _group_end(data, at)
        self._flush()
        if self._in_table:
            self._writer.end_table()
        for name, text in self._info.items():
            self._writer.draft.fact(name, text)

    def _handle(self, token: re.Match[bytes]) -> int:
        """Handle a token; return the number of binary bytes that follow it."""
        word, value, code, symbol, brace, text = token.groups()
        if text is not None:
            self._plain(text)
        elif word is not None:
            self._word(word, int(value) if value else None)
            return max(0, int(value)) if word == b"bin" and value else 0
        elif code is not None:
            self._plain(bytes([int(code, 16)]))
        elif brace is not None:
            self._brace(brace)
        elif symbol is not None:
            self._symbol(symbol)
        return 0

    def _brace(self, brace: bytes) -> None:
        self._flush()
        self._is_optional = False
        if brace == b"{":
            if len(self._stack) < _MAX_DEPTH:
                self._stack.append(self._state)
        elif self._stack:
            inner, self._state = self._state, self._stack.pop()
            if inner.in_label and not self._state.in_label:
                self._restyle()
            if inner.in_note and not self._state.in_note:
                self._end_note()

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._is_optional = True
        elif symbol in b"\\{}":
            self._plain(symbol)
        elif symbol == b"~":
            self._write(" ")
        elif symbol == b"_":
            self._write("-")
        elif symbol in b"\r\n":
            self._paragraph()

    def _plain(self, text: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(text))
            self._to_skip -= skipped
            text = text[skipped:]
        if text:
            self._flush_unicode()
            self._bytes += text

    def _word(self, word: bytes, value: int | None) -> None:
        if word == b"u" and value is not None:
            self._flush_bytes()
            self._unicode.append(value % 65_536)
            self._to_skip = self._state.skip
            return
        self._to_skip = 0
        if word == b"uc":  # may stand between the two halves of one character
            self._skip_count(value)
            return
        self._flush()
        if self._is_optional or word in _DESTINATIONS:
            self._destination(word)
        elif word in _CHARACTERS:
            self._write(_CHARACTERS[word])
        elif word in self._words:
            self._words[word](self, value)

    def _destination(self, word: bytes) -> None:
        self._is_optional = False
        if word in _TEXT_BOX:
            return
        if word == b"footnote":
            self._begin_note()
            return
        if word in _LABELS:
            self._begin_label()
            return
        self._skip_group = word not in _READ_THROUGH
        self._state = replace(
            self._state,
            left_out=word != b"fonttbl",
            in_fonts=word == b"fonttbl",
            info=_INFO.get(word, ""),
        )

    def _begin_label(self) -> None:
        self._state = replace(self._state, in_label=True, left_out=True)
        self._paragraph_now = replace(self._paragraph_now, is_item=True, label="")

    def _begin_note(self) -> None:
        self._state = replace(self._state, in_note=True)
        self._outside_notes.append(self._paragraph_now)
        self._paragraph_now = _Paragraph()
        self._writer.aside()

    def _end_note(self) -> None:
        self._writer.end_aside()
        self._paragraph_now = self._outside_notes.pop()

    def _note_mark(self, _: int | None) -> None:
        if not self._is_shown():
            return
        if self._state.in_note:
            if self._note_label:
                self._writer.note(self._note_label)
            return
        data, at = self._next
        note = _NOTE.search(data, at, at + _NOTE_BYTES)
        kind, number_format = ("endnote", roman) if note and note[1] else ("footnote", str)
        self._note_counts[kind] += 1
        self._note_label = number_format(self._note_counts[kind])
        self._writer.reference(self._note_label)

    def _write(self, text: str) -> None:
        if self._state.in_label:
            label = (self._paragraph_now.label + text)[:_MAX_LABEL]
            self._paragraph_now = replace(self._paragraph_now, label=label)
            return
        if self._state.info and self._state.left_out:
            name = self._state.info
            self._info[name] = (self._info.get(name, "") + text)[:1_000]
        elif self._is_shown():
            if self._in_table and not self._in_row:
                self._writer.end_table()
                self._in_table = False
            self._writer.write(text)

    def _is_shown(self) -> bool:
        state = self._state
        return not (state.left_out or state.in_fonts or state.hidden or state.deleted)

    def _flush(self) -> None:
        self._flush_bytes()
        self._flush_unicode()

    def _flush_bytes(self) -> None:
        if self._bytes:
            encoding = self._encodings.get(self._state.font, self._default_encoding)
            text = bytes(self._bytes).decode(encoding, "replace")
            self._bytes.clear()
            self._write(text)

    def _flush_unicode(self) -> None:
        if self._unicode:
            units = b"".join(unit.to_bytes(2, "little") for unit in self._unicode)
            self._unicode.clear()
            self._write(units.decode("utf-16-le", "replace"))

    def _codepage(self, value: int | None) -> None:
        name = "utf-8" if value == 65_001 else f"cp{value}"
        with suppress(LookupError):
            b"a".decode(name)
            self._default_encoding = name

    def _font_charset(self, value: int | None) -> None:
        if self._state.in_fonts and value in _CHARSETS and value:
            self._encodings[self._state.font] = _CHARSETS[value]

    def _font(self, value: int | None) -> None:
        self._state = replace(self._state, font=-1 if value is None else value)

    def _skip_count(self, value: int | None) -> None:
        self._state = replace(self._state, skip=min(max(value or 0, 0), 10))

    def _hide(self, value: int | None) -> None:
        self._state = replace(self._state, hidden=value != 0)

    def _delete(self, value: int | None) -> None:
        self._state = replace(self._state, deleted=value != 0)

    def _plain_characters(self, _: int | None) -> None:
        self._state = replace(self._state, hidden=False, deleted=False)

    def _paragraph(self, _: int | None = None) -> None:
        if not self._state.left_out and not self._state.deleted:
            self._paragraph_now = replace(self._paragraph_now, outline=None, label="")
            self._writer.begin(self._paragraph_now.style())

    def _reset_paragraph(self, _: int | None) -> None:
        # The label may come before the properties of its paragraph.
        label = self._paragraph_now.label
        self._change(_Paragraph(is_item=bool(label), label=label))

    def _outline(self, value: int | None) -> None:
        if value is not None and 0 <= value < 9:
            self._change(replace(self._paragraph_now, outline=value))

    def _list_item(self, value: int | None) -> None:
        self._change(replace(self._paragraph_now, is_item=bool(value)))

    def _list_level(self, value: int | None) -> None:
        self._change(replace(self._paragraph_now, depth=min(max(value or 0, 0), 8)))

    def _change(self, paragraph: _Paragraph) -> None:
        if not self._state.left_out:
            self._paragraph_now = paragraph
            self._restyle()

    def _restyle(self) -> None:
        self._writer.style(self._paragraph_now.style())

    def _begin_cell(self, _: int | None) -> None:
        if self._in_row or self._state.left_out:
            return
        if not self._in_table:
            self._writer.table()
        self._in_table = self._in_row = True
        self._writer.row()
        self._writer.cell()

    def _end_cell(self, _: int | None) -> None:
        self._begin_cell(None)
        self._paragraph_now = replace(self._paragraph_now, outline=None, label="")
        self._writer.cell()

    def _end_row(self, _: int | None) -> None:
        self._writer.end_row()
        self._in_row = False

    def _page(self, _: int | None) -> None:
        if not self._state.left_out and not self._in_table:
            self._writer.page()

    _words: ClassVar[dict[bytes, Callable[[_Parser, int | None], None]]] = {
        b"par": _paragraph, b"sect": _paragraph, b"pard": _reset_paragraph, b"page": _page,
        b"ansicpg": _codepage, b"fcharset": _font_charset, b"f": _font,
        b"v": _hide, b"deleted": _delete, b"mvf": _delete, b"plain": _plain_characters,
        b"outlinelevel": _outline, b"ls": _list_item, b"ilvl": _list_level,
        b"chftn": _note_mark,
        b"intbl": _begin_cell, b"cell": _end_cell, b"row": _end_row,
        b"nestcell": _paragraph, b"nestrow": _paragraph,
    }  # fmt: skip


READER = Reader("rtf", Rank.SIGNATURE, _recognises, _read)
