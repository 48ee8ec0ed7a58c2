"""Word documents (docx)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fairlead.read.base import Extracted, Rank, Reader, Task, library
from fairlead.read.docxstyles import Styles, styles_of
from fairlead.read.draft import Draft
from fairlead.read.ooxml import add_properties, has_type
from fairlead.read.package import Package, opened
from fairlead.read.source import Source
from fairlead.read.text_writer import PLAIN, Style, TextWriter
from fairlead.read.xml import Attributes, Walk, attribute, walk

_MAIN_TYPES = (
    b"wordprocessingml.document.main+xml",
    b"wordprocessingml.template.main+xml",
    b"vnd.ms-word.document.macroEnabled.main+xml",
    b"vnd.ms-word.template.macroEnabledTemplate.main+xml",
)
_MARKS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SEPARATORS = ("separator", "continuationSeparator", "continuationNotice")
_MAX_SPAN = 64


def read(source: Source, task: Task) -> Extracted:
    """Headers, paragraphs and tables in order, then footers, footnotes and endnotes."""
    draft = Draft("docx", library("lxml"), task.limits)
    with opened(source, task) as package:
        add_properties(package, draft, "docProps/core.xml")
        main = package.main("word/document.xml")
        text = _Text(TextWriter(draft, gap=1), styles_of(package, main))
        for part in _parts(package, main):
            text.pen.part()
            text.reset()
            walk(part, text, lambda: draft.full)
            if draft.full:
                break
    text.pen.close()
    return draft.finish()


def _parts(package: Package, main: str) -> Iterator[Iterator[bytes]]:
    """The parts that hold text, in reading order; the same header in two sections only once."""
    yield from _related(package, main, "header")
    yield package.chunks(main)
    for role in ("footer", "footnotes", "endnotes"):
        yield from _related(package, main, role)


def _related(package: Package, main: str, role: str) -> Iterator[Iterator[bytes]]:
    seen = set()
    for relation in package.relations(main):
        if relation.role != role or relation.target not in package.names:
            continue
        chunks = package.chunks(relation.target)
        first = next(chunks, b"")
        if first not in seen:
            seen.add(first)
            yield chain([first], chunks)


class _Text(Walk):
    # A fallback repeats what stands beside it for older programs; the others are no text.
    skipped = frozenset(["Fallback", "moveFrom", "tabs", "rPr", "sectPr", "tblPr", "instrText"])

    def __init__(self, pen: TextWriter, styles: Styles) -> None:
        super().__init__()
        self.pen = pen
        self._styles = styles
        self.reset()

    def reset(self) -> None:
        """Another part begins."""
        self._paragraphs: list[Style] = []
        self._boxes: list[list[Style]] = []
        self._in_text = False
        self._level = 0
        self._style = ""

    def start(self, tag: str, attributes: Attributes) -> None:
        # A separator between text and notes is a note of its own.
        if tag.endswith("note") and attribute(attributes, "type") in _SEPARATORS:
            self._skipping += 1
        else:
            super().start(tag, attributes)

    def opened(self, name: str, attributes: Attributes) -> None:
        if name == "t":
            self._in_text = True
        elif name in _MARKS:
            self.pen.write(_MARKS[name])
        elif name == "p":
            self._begin_paragraph()
        elif name in ("tbl", "tr", "tc"):
            {"tbl": self.pen.table, "tr": self.pen.row, "tc": self.pen.cell}[name]()
        elif name == "txbxContent":
            self._boxes.append(self._paragraphs)
            self._paragraphs = []
            self.pen.aside()
        elif name == "gridSpan":
            self._span(attribute(attributes, "val"))
        elif self._paragraphs:
            self._property(name, attribute(attributes, "val"))

    def closed(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "p":
            self._end_paragraph()
        elif name == "txbxContent":
            self.pen.end_aside()
            self._paragraphs = self._boxes.pop()
        elif name == "tr":
            self.pen.end_row()
        elif name == "tbl":
            self.pen.end_table()

    def said(self, text: str) -> None:
        if self._in_text:
            self.pen.write(text)

    def _begin_paragraph(self) -> None:
        self._paragraphs.append(PLAIN)
        self._style, self._level = "", 0
        self.pen.begin()

    def _end_paragraph(self) -> None:
        if self._paragraphs:
            self._paragraphs.pop()
        # A paragraph around a text box goes on after it.
        self.pen.begin(self._paragraphs[-1] if self._paragraphs else PLAIN)

    def _property(self, name: str, value: str) -> None:
        found: Style | None = None
        if name == "pStyle":
            self._style = value
            found = self._styles.paragraph(value)
        elif name == "outlineLvl":
            found = self._styles.outline(value)
        elif name == "ilvl":
            self._level = int(value) if value.isdecimal() else 0
        elif name == "numId":
            found = self._styles.numbered(self._style, value, self._level)
        if found is not None:
            self._paragraphs[-1] = found
            self.pen.style(found)

    def _span(self, value: str) -> None:
        blank = min(int(value), _MAX_SPAN) - 1 if value.isdecimal() else 0
        self.pen.span(blank)


READER = Reader("docx", Rank.SIGNATURE, has_type(_MAIN_TYPES, "word/document.xml"), read)
