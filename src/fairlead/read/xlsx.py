"""Excel sheets (xlsx), row by row: memory never depends on the size that a sheet claims."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, clean_line, library
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT, FORMATS
from fairlead.read.package import Package, add_properties, has_main_type, open_package
from fairlead.read.text_writer import TextWriter
from fairlead.read.xml import Attributes, XmlHandler, attribute, parse_xml, relation_id

_MAIN_TYPES = (
    b"spreadsheetml.sheet.main+xml",
    b"spreadsheetml.template.main+xml",
    b"vnd.ms-excel.sheet.macroEnabled.main+xml",
    b"vnd.ms-excel.template.macroEnabled.main+xml",
    b"vnd.ms-excel.addin.macroEnabled.main+xml",
)
_MAX_STRINGS = 2_000_000
_MAX_CELLS = 16_384  # of a row
_MAX_BLANKS = 64
_REFERENCE = re.compile(r"([A-Z]{1,3})\d+")
_NOT_DATE = re.compile(r'"[^"]*"|\\.|\[(?![hms]+\])[^\]]*\]|General|[#0?].*?[#0?]', re.IGNORECASE)
# Built-in number formats that show dates, and those that show times of day.
_DATES = frozenset([*range(14, 18), 22, *range(27, 37), *range(50, 59)])
_TIMES = frozenset([18, 19, 20, 21, 22, 45, 46, 47])
_LAST_DAY = 2_958_466  # the year 10000


def shown_blanks(blank: int) -> int:
    """Return how many of so many empty cells to show, so that rows do not become giant."""
    return blank if 0 <= blank <= _MAX_BLANKS else int(blank > 0)


def plain_number(value: float) -> str:
    """Format a number without traces of its binary form."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"


@lru_cache(maxsize=1_024)
def _shows_date_or_time(code: str) -> tuple[bool, bool]:
    """Return whether a number format shows a date, and whether it shows a time of day."""
    if code.isdecimal():
        return int(code) in _DATES, int(code) in _TIMES
    letters = _NOT_DATE.sub("", code.split(";", maxsplit=1)[0]).lower()
    has_day = "y" in letters or "d" in letters or (letters.count("m") > 2 and "h" not in letters)
    return has_day, "h" in letters or "s" in letters


class NumberFormats:
    """Formats the numbers of cells; with a date style, days since 1900 or 1904 become dates."""

    def __init__(self, codes: Sequence[str], *, from_1904: bool) -> None:
        self._codes = codes
        self._start = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 - sheets have no zone

    def show_styled(self, raw: str, style: str) -> str:
        try:
            value = float(raw)
        except ValueError:
            return raw
        index = int(style) if style.isdecimal() else 0
        return self.show(value, self._codes[index] if index < len(self._codes) else "")

    def show(self, value: float, code: str) -> str:
        has_day, has_time = _shows_date_or_time(code)
        if not (has_day or has_time) or not 0 <= value < _LAST_DAY:
            return plain_number(value)
        if not has_day:
            days = value if "[" in code else value % 1  # [h] counts beyond a day
            hours, rest = divmod(round(days * 86_400), 3_600)
            return f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        time = self._start + timedelta(seconds=round(value * 86_400))
        if has_time:
            return time.isoformat(sep=" ", timespec="seconds")
        return time.date().isoformat()


def _read(source: Source, task: Task) -> Extracted:
    """Each sheet under its name, one row per line; formulas as their last computed values."""
    draft = Draft("xlsx", library("lxml"), task.limits)
    writer = TextWriter(draft)
    with open_package(source, task) as package:
        add_properties(package, draft)
        main = package.main("xl/workbook.xml")
        book = _Workbook()
        parse_xml(package.chunks(main), book)
        relations = package.relations(main)
        by_id = {relation.id: relation.target for relation in relations}
        by_role = {relation.role: relation.target for relation in relations}
        strings = _read_strings(package, by_role.get("sharedStrings", ""), draft)
        formats = NumberFormats([], from_1904=book.from_1904)
        with draft.guard(FORMATS):
            formats = _read_formats(package, by_role.get("styles", ""), from_1904=book.from_1904)
        draft.fact("pages", len(book.sheets))
        for name, relation_id in book.sheets[: task.limits.members]:
            target = by_id.get(relation_id)
            if target in package.names and not draft.full:
                with draft.guard.page(clean_line(name), "sheet"):
                    with draft.guard(CONTENT):
                        writer.section(name)
                    sheet = _Sheet(writer, strings, formats)
                    parse_xml(package.chunks(target), sheet, lambda: draft.full)
    return writer.finish()


def _read_strings(package: Package, name: str, draft: Draft) -> list[str]:
    handler = _Strings(draft.limits.characters)
    if name in package.names:
        parse_xml(package.chunks(name), handler)
    if handler.done:
        draft.warn("some texts of the sheets were left out: there are too many of them")
    return handler.strings


def _read_formats(package: Package, name: str, *, from_1904: bool) -> NumberFormats:
    handler = _Formats()
    if name in package.names:
        parse_xml(package.chunks(name), handler)
    codes = [handler.codes.get(number, number) for number in handler.used]
    return NumberFormats(codes, from_1904=from_1904)


class _Workbook(XmlHandler):
    """The names of the sheets, and the first day of its calendar."""

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str]] = []
        self.from_1904 = False

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "sheet":
            self.sheets.append((attribute(attributes, "name"), relation_id(attributes)))
        elif name == "workbookPr":
            self.from_1904 = attribute(attributes, "date1904") in ("1", "true")


class _Strings(XmlHandler):
    """The texts that cells share, together within the limit."""

    skipped = frozenset(["rPh", "phoneticPr", "rPr"])

    def __init__(self, limit: int) -> None:
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
        self.codes: dict[str, str] = {}
        self.used: list[str] = []
        self._in_cells = False

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "numFmt":
            self.codes[attribute(attributes, "numFmtId")] = attribute(attributes, "formatCode")
        elif name == "cellXfs":
            self._in_cells = True
        elif name == "xf" and self._in_cells:
            self.used.append(attribute(attributes, "numFmtId"))

    def on_end(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cells = False


class _Sheet(XmlHandler):
    skipped = frozenset(["f", "rPh", "rPr", "headerFooter", "extLst"])

    def __init__(self, writer: TextWriter, strings: list[str], formats: NumberFormats) -> None:
        self._writer = writer
        self.take = writer.draft.guard.take
        self._strings = strings
        self._formats = formats
        self._kind = self._style = ""
        self._pieces: list[str] = []
        self._in_value = False
        self._row: list[str] = []
        self._column = 0

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "c":
            self._kind, self._style = attributes.get("t", ""), attributes.get("s", "")
            self._pieces = []
            self._add_cell(attributes.get("r", ""))
        elif name == "row":
            self._row = []
            self._column = 0
        else:
            self._in_value = name in ("v", "t")

    def on_text(self, text: str) -> None:
        if self._in_value:
            self._pieces.append(text)

    def on_end(self, name: str) -> None:
        self._in_value = False
        if name == "c":
            if self._pieces and self._row:
                self._row[-1] = self._value("".join(self._pieces))
        elif name == "row":
            self._writer.values(self._row)

    def _add_cell(self, reference: str) -> None:
        match = _REFERENCE.fullmatch(reference)
        column = 0
        for letter in match[1] if match else "":
            column = 26 * column + ord(letter) - 64
        column = column or self._column + 1
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
        return self._formats.show_styled(raw, self._style)


READER = Reader("xlsx", Rank.SIGNATURE, has_main_type(_MAIN_TYPES, "xl/workbook.xml"), _read)
