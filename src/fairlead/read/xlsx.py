"""Excel sheets (xlsx), row by row: what a sheet claims to be large is never built."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.package import Package, add_properties, has_type, open_package
from fairlead.read.text_writer import TextWriter, heading
from fairlead.read.xml import Attributes, XmlHandler, attribute, parse_xml

_MOST_BLANKS = 64
_REFERENCE = re.compile(r"([A-Z]{1,3})\d+")
_NOT_DATE = re.compile(r'"[^"]*"|\\.|\[(?![hms]+\])[^\]]*\]|General|[#0?].*?[#0?]', re.IGNORECASE)
_DATES = frozenset([*range(14, 18), 22, *range(27, 37), *range(50, 59)])
_TIMES = frozenset([18, 19, 20, 21, 45, 46, 47])
_LAST_DAY = 2_958_466  # the year 10000


def column_number(reference: str) -> int:
    """The number of the column in a reference such as C7; 0 where it is none."""
    found = _REFERENCE.fullmatch(reference)
    column = 0
    for letter in found[1] if found else "":
        column = 26 * column + ord(letter) - 64
    return column


def shown_blanks(blank: int) -> int:
    """How many empty cells are shown for so many: far-off cells do not make giant rows."""
    return blank if 0 <= blank <= _MOST_BLANKS else int(blank > 0)


def plain_number(value: float) -> str:
    """A number as people write it: no trace of how machines store it."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"


@lru_cache(maxsize=1_024)
def is_date(code: str) -> tuple[bool, bool]:
    """Whether a number format shows a date, and whether it shows a time of day."""
    if code.isdecimal():
        known = int(code)
        return known in _DATES, known in _TIMES or known == 22
    letters = _NOT_DATE.sub("", code.split(";", maxsplit=1)[0]).lower()
    has_day = "y" in letters or "d" in letters or (letters.count("m") > 2 and "h" not in letters)
    return has_day, "h" in letters or "s" in letters


class Formats:
    """Shows numbers as their style means them: days since 1900 or 1904 as dates."""

    def __init__(self, codes: Sequence[str], *, from_1904: bool) -> None:
        self._codes = codes
        self._start = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 - sheets have no zone

    def show(self, raw: str, style: str) -> str:
        """The number in a cell of this style."""
        try:
            value = float(raw)
        except ValueError:
            return raw
        index = int(style) if style.isdecimal() else 0
        code = self._codes[index] if index < len(self._codes) else ""
        return self.shown(value, code)

    def shown(self, value: float, code: str) -> str:
        """The number in a cell of this format."""
        has_day, has_time = is_date(code)
        if (has_day or has_time) and 0 <= value < _LAST_DAY:
            if not has_day and "[" not in code:
                value %= 1  # the time of a day, whichever
            return self._moment(value, has_day=has_day, has_time=has_time)
        return plain_number(value)

    def _moment(self, value: float, *, has_day: bool, has_time: bool) -> str:
        moment = self._start + timedelta(seconds=round(value * 86_400))
        if not has_day:
            hours, rest = divmod(round(value * 86_400), 3_600)
            return f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        if has_time:
            return moment.isoformat(sep=" ", timespec="seconds")
        return moment.date().isoformat()


_MAIN_TYPES = (
    b"spreadsheetml.sheet.main+xml",
    b"spreadsheetml.template.main+xml",
    b"vnd.ms-excel.sheet.macroEnabled.main+xml",
    b"vnd.ms-excel.template.macroEnabled.main+xml",
    b"vnd.ms-excel.addin.macroEnabled.main+xml",
)
_MAX_STRINGS = 2_000_000
_MAX_CELLS = 16_384  # of a row


def read(source: Source, task: Task) -> Extracted:
    """Each sheet under its name, a row a line; formulas give the values last computed."""
    draft = Draft("xlsx", library("lxml"), task.limits)
    writer = TextWriter(draft)
    with open_package(source, task) as package:
        add_properties(package, draft, "docProps/core.xml")
        main = package.main("xl/workbook.xml")
        book = _Book()
        parse_xml(package.chunks(main), book)
        parts = {relation.id: relation for relation in package.relations(main)}
        of_role = {relation.role: relation.target for relation in parts.values()}
        strings = _strings(package, of_role.get("sharedStrings", ""), draft)
        formats = _formats(package, of_role.get("styles", ""), from_1904=book.from_1904)
        draft.fact("pages", len(book.sheets))
        for name, part in book.sheets[: task.limits.members]:
            if part in parts and parts[part].target in package.names and not draft.full:
                writer.part()
                writer.begin(heading(2))
                writer.flow(name)
                sheet = _Sheet(writer, strings, formats)
                parse_xml(package.chunks(parts[part].target), sheet, lambda: draft.full)
    writer.close()
    return draft.finish()


def _strings(package: Package, name: str, draft: Draft) -> list[str]:
    if name not in package.names:
        return []
    found = _Strings(draft.limits.characters)
    parse_xml(package.chunks(name), found)
    if found.done:
        draft.warn("some texts of the sheets were left out: there are too many of them")
    return found.strings


def _formats(package: Package, name: str, *, from_1904: bool) -> Formats:
    found = _Formats()
    if name in package.names:
        parse_xml(package.chunks(name), found)
    return Formats([found.codes.get(number, number) for number in found.used], from_1904=from_1904)


class _Book(XmlHandler):
    """The names of the sheets, and since when days are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.sheets: list[tuple[str, str]] = []
        self.from_1904 = False

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "sheet":
            key = next((k for k in attributes if k.endswith("}id")), "")
            self.sheets.append((attribute(attributes, "name"), attributes.get(key, "")))
        elif name == "workbookPr":
            self.from_1904 = attribute(attributes, "date1904") in ("1", "true")


class _Strings(XmlHandler):
    """The texts that cells share; each is kept once, and all together within the limit."""

    skipped = frozenset(["rPh", "phoneticPr", "rPr"])

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.strings: list[str] = []
        self._pieces: list[str] = []
        self._in_text = False
        self._room = limit

    def on_start(self, name: str, _: Attributes) -> None:
        self._in_text = name == "t"

    def on_text(self, text: str) -> None:
        if self._in_text and not self.done:
            self._room -= len(text)
            self._pieces.append(text)
            self.done = self._room < 0

    def on_end(self, name: str) -> None:
        self._in_text = False
        if name == "si":
            self.strings.append("".join(self._pieces))
            self._pieces = []
            self.done = self.done or len(self.strings) >= _MAX_STRINGS


class _Formats(XmlHandler):
    """The codes of number formats, and which of them each style uses."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, str] = {}
        self.used: list[str] = []
        self._in_cells = False

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "numFmt":
            code = attribute(attributes, "formatCode")
            self.codes[attribute(attributes, "numFmtId")] = code
        elif name == "cellXfs":
            self._in_cells = True
        elif name == "xf" and self._in_cells:
            self.used.append(attribute(attributes, "numFmtId"))

    def on_end(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cells = False


class _Sheet(XmlHandler):
    skipped = frozenset(["f", "rPh", "rPr", "headerFooter", "extLst"])

    def __init__(self, writer: TextWriter, strings: list[str], formats: Formats) -> None:
        super().__init__()
        self._writer = writer
        self._strings = strings
        self._formats = formats
        self._kind = self._style = ""
        self._pieces: list[str] = []
        self._wanted = False
        self._row: list[str] = []
        self._column = 0
        writer.begin()

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "c":
            self._kind, self._style = attributes.get("t", ""), attributes.get("s", "")
            self._pieces = []
            self._place(attributes.get("r", ""))
        elif name == "row":
            self._row = []
            self._column = 0
        else:
            self._wanted = name in ("v", "t")

    def on_text(self, text: str) -> None:
        if self._wanted:
            self._pieces.append(text)

    def on_end(self, name: str) -> None:
        self._wanted = False
        if name == "c":
            if self._pieces and self._row:
                self._row[-1] = self._value("".join(self._pieces))
        elif name == "row":
            self._writer.values(self._row)

    def _place(self, reference: str) -> None:
        column = column_number(reference) or self._column + 1
        if len(self._row) < _MAX_CELLS:
            self._row.extend([""] * (shown_blanks(column - self._column - 1) + 1))
        self._column = max(column, self._column + 1)

    def _value(self, raw: str) -> str:
        kind = self._kind
        if kind == "s":
            index = int(raw)
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if raw.strip() == "1" else "FALSE"
        if kind in ("str", "inlineStr", "e", "d"):
            return raw
        return self._formats.show(raw, self._style)


READER = Reader("xlsx", Rank.SIGNATURE, has_type(_MAIN_TYPES, "xl/workbook.xml"), read)
