"""OpenDocument texts, sheets and presentations (odt, ods, odp)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.package import Package, Properties, member, member_names, open_package
from fairlead.read.text_writer import PLAIN, Style, TextWriter, heading, item
from fairlead.read.xlsx import shown_blanks
from fairlead.read.xml import Attributes, XmlHandler, attribute, parse_xml

_MAX_SPACES = 200


class _OdfText(XmlHandler):
    """Writes what stands within one element, the body unless told otherwise."""

    # fmt: off
    skipped = frozenset([
        "tracked-changes", "annotation", "annotation-end", "note-citation", "ruby-text", "script",
        "forms", "sequence-decls", "binary-data", "settings", "desc", "title", "style-name",
        "page-number", "date-style", "time-style",
    ])
    # fmt: on

    def __init__(
        self, writer: TextWriter, max_pages: int, *, within: str = "body", sheets: bool = False
    ) -> None:
        super().__init__()
        self._writer = writer
        self._within = within
        self._sheets = sheets
        self._max_pages = max_pages
        self._inside = 0
        self._blocks: list[Style] = []
        self._lists = 0
        self._outer: list[tuple[list[Style], int]] = []
        self._blank = 0
        self._titled = False
        self.pages = 0
        self.cut = False

    def on_start(self, name: str, attributes: Attributes) -> None:
        """Begin what the element stands for."""
        if name == self._within:
            self._inside += 1
        elif self._inside and name in self._openings:
            self._openings[name](self, attributes)

    def on_end(self, name: str) -> None:
        """End what the element stands for."""
        if name == self._within:
            self._inside -= 1
        elif self._inside and name in self._endings:
            self._endings[name](self)

    def on_text(self, text: str) -> None:
        """Write text that belongs to a paragraph."""
        if self._blocks:
            self._writer.flow(text)

    def _heading(self, attributes: Attributes) -> None:
        level = attribute(attributes, "outline-level", "1")
        self._begin(heading(int(level) if level.isdecimal() else 1))

    def _paragraph(self, _: Attributes) -> None:
        if self._titled:
            self._begin(heading(2))
        else:
            self._begin(item(self._lists - 1) if self._lists else PLAIN)

    def _begin(self, style: Style) -> None:
        self._blocks.append(style)
        self._writer.begin(style)

    def _begin_aside(self, _: Attributes) -> None:
        self._outer.append((self._blocks, self._lists))
        if self._blocks:
            self._writer.aside()
        self._blocks, self._lists = [], 0

    def _end_aside(self) -> None:
        self._blocks, self._lists = self._outer.pop()
        if self._blocks:
            self._writer.end_aside()

    def _end(self) -> None:
        if self._blocks:
            self._blocks.pop()
        # A paragraph around a frame or a note goes on after it.
        self._writer.begin(self._blocks[-1] if self._blocks else PLAIN)

    def _spaces(self, attributes: Attributes) -> None:
        count = attribute(attributes, "c", "1")
        self._writer.write(" " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES))

    def _tab(self, _: Attributes) -> None:
        self._writer.write("\t")

    def _line(self, _: Attributes) -> None:
        self._writer.line()

    def _list(self, _: Attributes) -> None:
        self._lists += 1

    def _end_list(self) -> None:
        self._lists = max(0, self._lists - 1)

    def _frame(self, attributes: Attributes) -> None:
        self._titled = attribute(attributes, "class") == "title"

    def _end_frame(self) -> None:
        self._titled = False

    def _page(self, _: Attributes) -> None:
        self.pages += 1
        if self.pages > self._max_pages:
            self.cut = self.done = True
            return
        self._writer.page()

    def _table(self, attributes: Attributes) -> None:
        if self._sheets:
            self.pages += 1
            self._writer.part()
            self._writer.begin(heading(2))
            self._writer.flow(attribute(attributes, "name"))
        self._writer.table(values=self._sheets)

    def _end_table(self) -> None:
        self._writer.end_table()

    def _row(self, _: Attributes) -> None:
        self._blank = 0
        self._writer.row()

    def _end_row(self) -> None:
        self._writer.end_row()

    def _cell(self, attributes: Attributes) -> None:
        repeated = attribute(attributes, "number-columns-repeated", "1")
        count = int(repeated) if repeated.isdecimal() else 1
        self._writer.cell(blank_before=shown_blanks(self._blank))
        self._blank = count - 1

    _openings: ClassVar[dict[str, Callable[[_OdfText, Attributes], None]]] = {
        "h": _heading,
        "p": _paragraph,
        "s": _spaces,
        "tab": _tab,
        "tab-stop": _tab,
        "line-break": _line,
        "list": _list,
        "ordered-list": _list,
        "unordered-list": _list,
        "note": _begin_aside,
        "footnote": _begin_aside,
        "text-box": _begin_aside,
        "frame": _frame,
        "page": _page,
        "table": _table,
        "table-row": _row,
        "table-cell": _cell,
        "covered-table-cell": _cell,
    }
    _endings: ClassVar[dict[str, Callable[[_OdfText], None]]] = {
        "h": _end,
        "p": _end,
        "list": _end_list,
        "ordered-list": _end_list,
        "unordered-list": _end_list,
        "note": _end_aside,
        "footnote": _end_aside,
        "text-box": _end_aside,
        "frame": _end_frame,
        "table": _end_table,
        "table-row": _end_row,
    }


# What the first member says, for the present format and the one before it.
_MIMES = {
    "odt": (b"opendocument.text", b"sun.xml.writer"),
    "ods": (b"opendocument.spreadsheet", b"sun.xml.calc"),
    "odp": (b"opendocument.presentation", b"opendocument.graphics", b"sun.xml.impress"),
}
_MANIFEST = "META-INF/manifest.xml"
_CONTENT = "content.xml"
_FLAT_START = 8_192
_CHUNK = 65_536


def _has_mime(kind: str) -> Callable[[Source], bool]:
    def recognises(source: Source) -> bool:
        if _CONTENT not in member_names(source):
            return False
        mime = member(source, "mimetype", 200) or _listed_mime(source)
        return any(wanted in mime for wanted in _MIMES[kind])

    return recognises


def _listed_mime(source: Source) -> bytes:
    """What the manifest says of the package itself, where the first member is missing."""
    manifest = member(source, _MANIFEST)
    return next((line for line in manifest.split(b"<") if b'full-path="/"' in line), b"")


def _reads(kind: str) -> Callable[[Source, Task], Extracted]:
    def read(source: Source, task: Task) -> Extracted:
        draft = Draft(kind, library("lxml"), task.limits)
        with open_package(source, task) as package:
            _check_lock(package)
            if "meta.xml" in package.names:
                parse_xml([package.read("meta.xml")], Properties(draft))
            writer = TextWriter(draft, gap=1)
            if kind == "odt" and "styles.xml" in package.names:
                _add_frame(package, writer, task)
            _add_text(package.chunks(_CONTENT), kind, writer, task)
        return draft.finish()

    return read


def _add_text(chunks: Iterable[bytes], kind: str, writer: TextWriter, task: Task) -> None:
    text = _OdfText(writer, task.limits.pages, sheets=kind == "ods")
    parse_xml(chunks, text, lambda: writer.draft.full)
    writer.close()
    if text.pages:
        writer.draft.fact("pages", text.pages)
    if text.cut:
        writer.draft.warn(f"only the first {task.limits.pages} pages were read")


def _add_frame(package: Package, writer: TextWriter, task: Task) -> None:
    """Write the headers and footers, which belong to the styles of pages."""
    parse_xml(
        package.chunks("styles.xml"), _OdfText(writer, task.limits.pages, within="master-styles")
    )
    writer.part()


def _check_lock(package: Package) -> None:
    if b"encryption-data" in package.read(_MANIFEST):
        detail = "The document is protected by a password; send it without one."
        raise CannotRead("encrypted", detail)


def _is_flat(kind: str) -> Callable[[Source], bool]:
    """Recognises the form that is one XML file instead of a package."""

    def recognises(source: Source) -> bool:
        start = source.head[:_FLAT_START]
        return b"<office:document" in start and any(mime in start for mime in _MIMES[kind])

    return recognises


def _reads_flat(kind: str) -> Callable[[Source, Task], Extracted]:
    def read(source: Source, task: Task) -> Extracted:
        draft = Draft(kind, library("lxml"), task.limits)
        with source.open() as file:
            chunks = iter(lambda: file.read(_CHUNK), b"")
            _add_text(chunks, kind, TextWriter(draft, gap=1), task)
        return draft.finish()

    return read


READERS = (
    *(Reader(kind, Rank.SIGNATURE, _has_mime(kind), _reads(kind)) for kind in _MIMES),
    *(Reader(kind, Rank.STRUCTURE, _is_flat(kind), _reads_flat(kind)) for kind in _MIMES),
)
