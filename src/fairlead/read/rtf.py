"""Rich Text (rtf)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from fairlead.read.base import Extracted, Rank, Reader, Source, Task
from fairlead.read.draft import Draft
from fairlead.read.text_writer import PLAIN, TextWriter, heading, item

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
    b"listtext", b"pntext", b"nonshppict", b"template", b"latentstyles", b"pgptbl", b"mmathPr",
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
_KEPT = frozenset([b"shpinst", b"shptxt"])  # what draws a text box, and its text
_READ_THROUGH = frozenset([b"fonttbl", b"info", b"title", b"author"])
_GROUP = re.compile(rb"[{}]|\\[{}\\]|\\bin(\d{1,10}) ?")
_INFO = {b"title": "title", b"author": "author"}


@dataclass(frozen=True, slots=True)
class _State:
    """What a group inherits from the one around it."""

    left_out: bool = False
    info: str = ""
    skip: int = 1  # characters that repeat a Unicode one for older programs
    encoding: str = "cp1252"
    font: int = -1
    in_fonts: bool = False
    hidden: bool = False


def recognises(source: Source) -> bool:
    """Whether it begins as Rich Text does."""
    return source.head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{\\rtf")


def read(source: Source, task: Task) -> Extracted:
    """The text with its tables and lists; pictures and field codes are left out."""
    draft = Draft("rtf", "Fairlead rtf", task.limits)
    writer = TextWriter(draft, gap=1)
    write_rtf(source.read(source.size), writer)
    writer.close()
    return draft.finish()


def write_rtf(data: bytes, writer: TextWriter) -> None:
    """Write the text of Rich Text."""
    _Rtf(writer).run(data)


def _group_end(data: bytes, at: int) -> int:
    """Where the present group ends, by its braces alone."""
    depth = 0
    while found := _GROUP.search(data, at):
        at = found.end() + int(found[1] or 0)
        if found[0] == b"{":
            depth += 1
        elif found[0] == b"}":
            depth -= 1
            if depth < 0:
                return found.start()
    return len(data)


class _Rtf:
    def __init__(self, writer: TextWriter) -> None:
        self._writer = writer
        self._state = _State()
        self._stack: list[_State] = []
        self._bytes = bytearray()
        self._unicode: list[int] = []
        self._to_skip = 0
        self._fonts: dict[int, str] = {}
        self._default = "cp1252"
        self._optional = False
        self._skip_group = False
        self._info: dict[str, str] = {}
        self._in_table = False
        self._item = False
        self._in_row = False

    def run(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self._writer.draft.full:
            found = _TOKEN.match(data, at)
            if found is None:
                at += 1  # a backslash at the very end
                continue
            at = found.end() + self._take(found)
            if self._skip_group:
                self._skip_group = False
                at = _group_end(data, at)
        self._end()

    def _take(self, found: re.Match[bytes]) -> int:
        """Do what a token says; the number of bytes behind it that are no tokens."""
        word, value, code, sign, brace, text = found.groups()
        if text is not None:
            self._plain(text)
        elif word is not None:
            self._word(word, int(value) if value else None)
            return max(0, int(value)) if word == b"bin" and value else 0
        elif code is not None:
            self._byte(int(code, 16))
        elif brace is not None:
            self._brace(brace)
        elif sign is not None:
            self._sign(sign)
        return 0

    def _end(self) -> None:
        self._flush()
        if self._in_table:
            self._writer.end_table()
        for name, text in self._info.items():
            self._writer.draft.fact(name, text)

    def _brace(self, brace: bytes) -> None:
        self._flush()
        self._optional = False
        if brace == b"{":
            if len(self._stack) < _MAX_DEPTH:
                self._stack.append(self._state)
        elif self._stack:
            self._state = self._stack.pop()

    def _sign(self, sign: bytes) -> None:
        if sign == b"*":
            self._optional = True
        elif sign in b"\\{}":
            self._plain(sign)
        elif sign == b"~":
            self._write(" ")
        elif sign == b"_":
            self._write("-")
        elif sign in b"\r\n":
            self._paragraph()

    def _plain(self, text: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(text))
            self._to_skip -= skipped
            text = text[skipped:]
        if text:
            self._flush_unicode()
            self._bytes += text

    def _byte(self, value: int) -> None:
        if self._to_skip:
            self._to_skip -= 1
            return
        self._flush_unicode()
        self._bytes.append(value)

    def _word(self, word: bytes, value: int | None) -> None:
        if word == b"u" and value is not None:
            self._unicode_character(value)
            return
        self._to_skip = 0
        self._flush()
        if self._optional or word in _LEFT_OUT or word in _INFO:
            self._destination(word)
        elif word in _CHARACTERS:
            self._write(_CHARACTERS[word])
        elif word in self._words:
            self._words[word](self, value)

    def _unicode_character(self, value: int) -> None:
        self._flush_bytes()
        self._unicode.append(value % 65_536)
        self._to_skip = self._state.skip

    def _destination(self, word: bytes) -> None:
        self._optional = False
        if word in _KEPT:
            return
        if word in (b"listtext", b"pntext"):
            self._item = True
            self._writer.style(item())
        self._skip_group = word not in _READ_THROUGH
        self._state = replace(
            self._state,
            left_out=word != b"fonttbl",
            in_fonts=word == b"fonttbl",
            info=_INFO.get(word, ""),
        )

    def _write(self, text: str) -> None:
        if self._state.info and self._state.left_out:
            name = self._state.info
            self._info[name] = (self._info.get(name, "") + text)[:1_000]
        elif not self._state.left_out and not self._state.in_fonts and not self._state.hidden:
            if self._in_table and not self._in_row:
                self._leave_table()
            self._writer.write(text)

    def _flush(self) -> None:
        self._flush_bytes()
        self._flush_unicode()

    def _flush_bytes(self) -> None:
        if self._bytes:
            encoding = self._fonts.get(self._state.font, self._default)
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
        try:
            b"a".decode(name)
        except LookupError:
            return
        self._default = name

    def _font_charset(self, value: int | None) -> None:
        if self._state.in_fonts and value in _CHARSETS and value:
            self._fonts[self._state.font] = _CHARSETS[value]

    def _font(self, value: int | None) -> None:
        self._state = replace(self._state, font=-1 if value is None else value)

    def _skip_count(self, value: int | None) -> None:
        self._state = replace(self._state, skip=min(max(value or 0, 0), 10))

    def _hide(self, value: int | None) -> None:
        self._state = replace(self._state, hidden=value != 0)

    def _paragraph(self, _: int | None = None) -> None:
        if not self._state.left_out:
            self._writer.begin(item() if self._item else PLAIN)

    def _plain_paragraph(self, _: int | None = None) -> None:
        if not self._state.left_out:
            self._item = False
            self._writer.style(PLAIN)

    def _leave_table(self) -> None:
        self._writer.end_table()
        self._in_table = False

    def _outline(self, value: int | None) -> None:
        if value is not None and 0 <= value < 9 and not self._state.left_out:
            self._writer.style(heading(value + 1))

    def _list_item(self, value: int | None) -> None:
        self._item = bool(value)
        if self._item and not self._state.left_out:
            self._writer.style(item())

    def _in_cell(self, _: int | None) -> None:
        if self._in_row or self._state.left_out:
            return
        if not self._in_table:
            self._writer.table()
        self._in_table = self._in_row = True
        self._writer.row()
        self._writer.cell()

    def _cell(self, _: int | None) -> None:
        self._in_cell(None)
        self._writer.cell()

    def _row(self, _: int | None) -> None:
        self._writer.end_row()
        self._in_row = False

    def _page(self, _: int | None) -> None:
        if not self._state.left_out and not self._in_table:
            self._writer.page()

    _words: ClassVar[dict[bytes, Callable[[_Rtf, int | None], None]]] = {
        b"par": _paragraph,
        b"sect": _paragraph,
        b"pard": _plain_paragraph,
        b"page": _page,
        b"ansicpg": _codepage,
        b"fcharset": _font_charset,
        b"f": _font,
        b"uc": _skip_count,
        b"v": _hide,
        b"outlinelevel": _outline,
        b"ls": _list_item,
        b"intbl": _in_cell,
        b"cell": _cell,
        b"row": _row,
        b"nestcell": _paragraph,
        b"nestrow": _paragraph,
    }


READER = Reader("rtf", Rank.SIGNATURE, recognises, read)
