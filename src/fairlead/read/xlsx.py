"""Excel sheets (xlsx), row by row: what a sheet claims to be large is never built."""

from __future__ import annotations

from fairlead.read.base import Extracted, Rank, Reader, Task, library
from fairlead.read.draft import Draft
from fairlead.read.ooxml import add_properties, has_type
from fairlead.read.package import Package, opened
from fairlead.read.sheetvalues import Formats, number, spread
from fairlead.read.source import Source
from fairlead.read.text_writer import TextWriter, heading
from fairlead.read.xml import Attributes, Walk, attribute, walk

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
    pen = TextWriter(draft)
    with opened(source, task) as package:
        add_properties(package, draft, "docProps/core.xml")
        main = package.main("xl/workbook.xml")
        book = _Book()
        walk(package.chunks(main), book)
        parts = {relation.id: relation for relation in package.relations(main)}
        of_role = {relation.role: relation.target for relation in parts.values()}
        strings = _strings(package, of_role.get("sharedStrings", ""), draft)
        formats = _formats(package, of_role.get("styles", ""), from_1904=book.from_1904)
        draft.fact("pages", len(book.sheets))
        for name, part in book.sheets[: task.limits.members]:
            if part in parts and parts[part].target in package.names and not draft.full:
                pen.part()
                pen.begin(heading(2))
                pen.flow(name)
                sheet = _Sheet(pen, strings, formats)
                walk(package.chunks(parts[part].target), sheet, lambda: draft.full)
    pen.close()
    return draft.finish()


def _strings(package: Package, name: str, draft: Draft) -> list[str]:
    if name not in package.names:
        return []
    found = _Strings(draft.limits.characters)
    walk(package.chunks(name), found)
    if found.done:
        draft.warn("some texts of the sheets were left out: there are too many of them")
    return found.strings


def _formats(package: Package, name: str, *, from_1904: bool) -> Formats:
    found = _Formats()
    if name in package.names:
        walk(package.chunks(name), found)
    return Formats([found.codes.get(number, number) for number in found.used], from_1904=from_1904)


class _Book(Walk):
    """The names of the sheets, and since when days are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.sheets: list[tuple[str, str]] = []
        self.from_1904 = False

    def opened(self, name: str, attributes: Attributes) -> None:
        if name == "sheet":
            key = next((k for k in attributes if k.endswith("}id")), "")
            self.sheets.append((attribute(attributes, "name"), attributes.get(key, "")))
        elif name == "workbookPr":
            self.from_1904 = attribute(attributes, "date1904") in ("1", "true")


class _Strings(Walk):
    """The texts that cells share; each is kept once, and all together within the limit."""

    skipped = frozenset(["rPh", "phoneticPr", "rPr"])

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.strings: list[str] = []
        self._pieces: list[str] = []
        self._in_text = False
        self._room = limit

    def opened(self, name: str, _: Attributes) -> None:
        self._in_text = name == "t"

    def said(self, text: str) -> None:
        if self._in_text and not self.done:
            self._room -= len(text)
            self._pieces.append(text)
            self.done = self._room < 0

    def closed(self, name: str) -> None:
        self._in_text = False
        if name == "si":
            self.strings.append("".join(self._pieces))
            self._pieces = []
            self.done = self.done or len(self.strings) >= _MAX_STRINGS


class _Formats(Walk):
    """The codes of number formats, and which of them each style uses."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, str] = {}
        self.used: list[str] = []
        self._in_cells = False

    def opened(self, name: str, attributes: Attributes) -> None:
        if name == "numFmt":
            code = attribute(attributes, "formatCode")
            self.codes[attribute(attributes, "numFmtId")] = code
        elif name == "cellXfs":
            self._in_cells = True
        elif name == "xf" and self._in_cells:
            self.used.append(attribute(attributes, "numFmtId"))

    def closed(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cells = False


class _Sheet(Walk):
    skipped = frozenset(["f", "rPh", "rPr", "headerFooter", "extLst"])

    def __init__(self, pen: TextWriter, strings: list[str], formats: Formats) -> None:
        super().__init__()
        self._pen = pen
        self._strings = strings
        self._formats = formats
        self._kind = self._style = ""
        self._pieces: list[str] = []
        self._wanted = False
        self._row: list[str] = []
        self._column = 0
        pen.begin()

    def opened(self, name: str, attributes: Attributes) -> None:
        if name == "c":
            self._kind, self._style = attributes.get("t", ""), attributes.get("s", "")
            self._pieces = []
            self._place(attributes.get("r", ""))
        elif name == "row":
            self._row = []
            self._column = 0
        else:
            self._wanted = name in ("v", "t")

    def said(self, text: str) -> None:
        if self._wanted:
            self._pieces.append(text)

    def closed(self, name: str) -> None:
        self._wanted = False
        if name == "c":
            if self._pieces and self._row:
                self._row[-1] = self._value("".join(self._pieces))
        elif name == "row":
            self._pen.values(self._row)

    def _place(self, reference: str) -> None:
        column = number(reference) or self._column + 1
        if len(self._row) < _MAX_CELLS:
            self._row.extend([""] * (spread(column - self._column - 1) + 1))
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
