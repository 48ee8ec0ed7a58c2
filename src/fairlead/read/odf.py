"""OpenDocument texts, sheets and presentations (odt, ods, odp)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from fairlead.read.base import (
    CannotRead,
    Extracted,
    Rank,
    Reader,
    Source,
    Task,
    clean_line,
    library,
)
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT, PROPERTIES, REST, PartName
from fairlead.read.odf_lists import Lists, ListStyles, OpenList
from fairlead.read.package import Properties, open_package, read_member
from fairlead.read.text_writer import PLAIN, Style, TextWriter, heading
from fairlead.read.xlsx import shown_blanks
from fairlead.read.xml import Attributes, XmlHandler, attribute, int_attribute, parse_xml
from fairlead.read.zip import member_names

# The content types of the present format and of its predecessor.
_MIMES = {
    "odt": (b"opendocument.text", b"sun.xml.writer"),
    "ods": (b"opendocument.spreadsheet", b"sun.xml.calc"),
    "odp": (b"opendocument.presentation", b"opendocument.graphics", b"sun.xml.impress"),
}
_MANIFEST = "META-INF/manifest.xml"
_CONTENT = "content.xml"
_FLAT_START = 8_192
_CHUNK = 65_536
_MAX_SPACES = 200
_MAX_CITATION = 20
_LISTS = ("list", "ordered-list", "unordered-list")
_CITATIONS = ("note-citation", "footnote-citation", "endnote-citation")
_NOTES = ("note-body", "footnote-body", "endnote-body")


def _is_package(kind: str, source: Source) -> bool:
    if _CONTENT not in member_names(source):
        return False
    mime = read_member(source, "mimetype", 200)
    if not mime:
        entries = read_member(source, _MANIFEST).split(b"<")
        mime = next((entry for entry in entries if b'full-path="/"' in entry), b"")
    return any(known in mime for known in _MIMES[kind])


def _is_flat(kind: str, source: Source) -> bool:
    """Recognise the form that is one XML file instead of a package."""
    start = source.head[:_FLAT_START]
    return b"<office:document" in start and any(mime in start for mime in _MIMES[kind])


def _read_package(kind: str, source: Source, task: Task) -> Extracted:
    draft = Draft(kind, library("lxml"), task.limits)
    writer = TextWriter(draft, gap=1)
    with open_package(source, task) as package:
        if b"encryption-data" in package.read(_MANIFEST):
            detail = "The document is protected by a password; send it without one."
            raise CannotRead("encrypted", detail)
        with draft.guard(PROPERTIES):
            if "meta.xml" in package.names:
                parse_xml([package.read("meta.xml")], Properties(draft))
        styles = ListStyles()
        if kind == "odt" and "styles.xml" in package.names:
            # Headers and footers belong to the styles of pages.
            with draft.guard(CONTENT, PartName("part", "headers and footers")):
                frame = _OdfText(writer, styles, task.limits.pages, within="master-styles")
                parse_xml(package.chunks("styles.xml"), frame)
            writer.part()
        text = _OdfText(writer, styles, task.limits.pages, sheets=kind == "ods")
        return _read_text(package.chunks(_CONTENT), text, writer)


def _read_flat(kind: str, source: Source, task: Task) -> Extracted:
    writer = TextWriter(Draft(kind, library("lxml"), task.limits), gap=1)
    with source.open() as file:
        text = _OdfText(writer, ListStyles(), task.limits.pages, sheets=kind == "ods")
        return _read_text(iter(lambda: file.read(_CHUNK), b""), text, writer)


def _read_text(chunks: Iterable[bytes], text: _OdfText, writer: TextWriter) -> Extracted:
    guard = writer.draft.guard
    try:
        parse_xml(chunks, text, lambda: writer.draft.full)
    except Exception as error:
        if text.pages < 2:
            raise
        # The pages before the damage are whole. No page after it can be found.
        guard.take(error, REST)
    guard.place = None
    if text.pages:
        writer.draft.fact("pages", text.pages)
    if text.cut:
        writer.draft.warn(f"only the first {text.max_pages} pages were read")
    return writer.finish()


@dataclass(slots=True)
class _OpenRow:
    """A row being read; equal rows and equal cells are stored once, with their number."""

    repeat: int
    cell_repeat: int = 1
    blank_cells: int = 0


class _OdfText(XmlHandler):
    """Writes the content of one element."""

    # fmt: off
    skipped = frozenset([
        "tracked-changes", "annotation", "annotation-end", "ruby-text", "script",
        "forms", "sequence-decls", "binary-data", "settings", "desc", "title", "style-name",
        "page-number", "date-style", "time-style",
    ])
    # fmt: on

    def __init__(
        self,
        writer: TextWriter,
        styles: ListStyles,
        max_pages: int,
        *,
        within: str = "body",
        sheets: bool = False,
    ) -> None:
        self._writer = writer
        self.take = writer.draft.guard.take
        self._within = within
        self._sheets = sheets
        self.max_pages = max_pages
        self._inside = 0
        self._blocks: list[Style] = []
        self._lists = Lists(styles)
        self._outer: list[tuple[list[Style], list[OpenList]]] = []
        self._citation = ""
        self._in_citation = False
        self._note = ""  # the mark of the note that begins
        self._table_rows: list[_OpenRow] = []
        self._in_title = False
        self.pages = 0
        self.cut = False

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == self._within:
            self._inside += 1
        elif not self._inside:
            self._lists.styles.on_start(name, attributes)
        elif name in self._on_start:
            self._on_start[name](self, attributes)

    def on_end(self, name: str) -> None:
        if name == self._within:
            self._inside -= 1
        elif self._inside and name in self._on_end:
            self._on_end[name](self)

    def on_text(self, text: str) -> None:
        if self._in_citation:
            self._citation = (self._citation + text.strip())[:_MAX_CITATION]
        elif self._blocks:
            self._writer.flow(text)

    def _heading(self, attributes: Attributes) -> None:
        level = int_attribute(attributes, "outline-level", 1)
        self._begin(self._lists.heading(level, attributes))

    def _paragraph(self, _: Attributes) -> None:
        if self._in_title:
            self._begin(heading(2))
        else:
            self._begin(self._lists.paragraph())

    def _begin(self, style: Style) -> None:
        self._blocks.append(style)
        self._writer.begin(style)
        if self._note:
            self._writer.note(self._note)
            self._note = ""

    def _end(self) -> None:
        if self._blocks:
            self._blocks.pop()
        # A paragraph around a frame or a note continues after it.
        self._writer.begin(self._blocks[-1] if self._blocks else PLAIN)

    def _begin_aside(self, _: Attributes) -> None:
        self._outer.append((self._blocks, self._lists.set_aside()))
        if self._blocks:
            self._writer.aside()
        self._blocks = []

    def _end_aside(self) -> None:
        self._blocks, lists = self._outer.pop()
        self._lists.restore(lists)
        if self._blocks:
            self._writer.end_aside()

    def _spaces(self, attributes: Attributes) -> None:
        self._writer.write(" " * min(int_attribute(attributes, "c", 1), _MAX_SPACES))

    def _tab(self, _: Attributes) -> None:
        self._writer.write("\t")

    def _begin_citation(self, _: Attributes) -> None:
        self._citation, self._in_citation = "", True

    def _end_citation(self) -> None:
        self._in_citation = False

    def _begin_note(self, attributes: Attributes) -> None:
        if self._citation and self._blocks:
            self._writer.reference(self._citation)
        self._begin_aside(attributes)
        self._note, self._citation = self._citation, ""

    def _frame(self, attributes: Attributes) -> None:
        self._in_title = attribute(attributes, "class") == "title"

    def _end_frame(self) -> None:
        self._in_title = False

    def _page(self, _: Attributes) -> None:
        self.pages += 1
        if self.pages > self.max_pages:
            self.cut = self.done = True
            return
        self._writer.draft.guard.place = PartName("slide", self.pages)
        self._writer.page()

    def _table(self, attributes: Attributes) -> None:
        if self._sheets:
            self.pages += 1
            name = attribute(attributes, "name")
            self._writer.draft.guard.place = PartName("sheet", clean_line(name))
            self._writer.section(name)
        self._writer.table(values=self._sheets)

    def _row(self, attributes: Attributes) -> None:
        self._table_rows.append(_OpenRow(int_attribute(attributes, "number-rows-repeated", 1)))
        self._writer.row()

    def _end_row(self) -> None:
        self._writer.end_row(repeat=self._table_rows.pop().repeat)

    def _cell(self, attributes: Attributes) -> None:
        row = self._table_rows[-1]
        self._writer.cell(blank_before=shown_blanks(row.blank_cells))
        row.blank_cells = 0
        row.cell_repeat = int_attribute(attributes, "number-columns-repeated", 1)

    def _end_cell(self) -> None:
        row = self._table_rows[-1]
        copies = row.cell_repeat - 1
        if copies > 0 and not self._writer.copy_cell(copies):
            row.blank_cells = copies

    _on_start: ClassVar[dict[str, Callable[[_OdfText, Attributes], None]]] = {
        "h": _heading, "p": _paragraph, "s": _spaces, "tab": _tab, "tab-stop": _tab,
        "line-break": lambda self, _: self._writer.line(),
        **dict.fromkeys(_LISTS, lambda self, attributes: self._lists.begin(attributes)),
        "list-item": lambda self, attributes: self._lists.begin_item(attributes),
        "list-header": lambda self, attributes: self._lists.begin_header(attributes),
        **dict.fromkeys(_CITATIONS, _begin_citation), **dict.fromkeys(_NOTES, _begin_note),
        "text-box": _begin_aside,
        "frame": _frame, "page": _page,
        "table": _table, "table-row": _row, "table-cell": _cell, "covered-table-cell": _cell,
    }  # fmt: skip
    _on_end: ClassVar[dict[str, Callable[[_OdfText], None]]] = {
        "h": _end, "p": _end, "frame": _end_frame,
        **dict.fromkeys(_LISTS, lambda self: self._lists.end()),
        **dict.fromkeys(_CITATIONS, _end_citation), **dict.fromkeys(_NOTES, _end_aside),
        "text-box": _end_aside,
        "table": lambda self: self._writer.end_table(),
        "table-row": _end_row, "table-cell": _end_cell, "covered-table-cell": _end_cell,
    }  # fmt: skip


READERS = (
    *(
        Reader(k, Rank.SIGNATURE, partial(_is_package, k), partial(_read_package, k))
        for k in _MIMES
    ),
    *(Reader(k, Rank.STRUCTURE, partial(_is_flat, k), partial(_read_flat, k)) for k in _MIMES),
)
