"""Word documents (docx)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import ClassVar

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.chart import write_chart
from fairlead.read.docx_styles import DocxStyles, ParagraphProperties, read_styles
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT, PartName
from fairlead.read.numbering import roman
from fairlead.read.package import Package, add_properties, has_main_type, open_package
from fairlead.read.text_writer import PLAIN, Style, TextWriter
from fairlead.read.xml import (
    Attributes,
    XmlHandler,
    attribute,
    int_attribute,
    parse_xml,
    relation_id,
)

_MAIN_TYPES = (
    b"wordprocessingml.document.main+xml",
    b"wordprocessingml.template.main+xml",
    b"vnd.ms-word.document.macroEnabled.main+xml",
    b"vnd.ms-word.template.macroEnabledTemplate.main+xml",
)
_CHARACTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SEPARATORS = ("separator", "continuationSeparator", "continuationNotice")
_MAX_SPAN = 64
# How notes are numbered unless a section says otherwise.
_NOTE_FORMATS: dict[str, Callable[[int], str]] = {"footnote": str, "endnote": roman}
_REFERENCES = {"footnoteReference": "footnote", "endnoteReference": "endnote"}


def _read(source: Source, task: Task) -> Extracted:
    """Headers, paragraphs, tables and charts in order, then footers, footnotes and endnotes."""
    draft = Draft("docx", library("lxml"), task.limits)
    with open_package(source, task) as package:
        add_properties(package, draft)
        main = package.main("word/document.xml")
        styles = read_styles(package, main, draft.guard)
        body = _Body(TextWriter(draft, gap=1), styles, package)
        seen = set[bytes]()
        for role in ("header", "body", "footer", "footnotes", "endnotes"):
            for part in [main] if role == "body" else _targets(package, main, role, draft):
                if draft.full:
                    break
                if role == "body":
                    _write_part(body, part, seen)
                    continue
                with draft.guard(CONTENT, PartName("part", role)):
                    _write_part(body, part, seen)
    return body.writer.finish()


def _targets(package: Package, main: str, role: str, draft: Draft) -> list[str]:
    with draft.guard(CONTENT, PartName("part", role)):
        return package.targets(main, role)
    return []


def _write_part(body: _Body, part: str, seen: set[bytes]) -> None:
    """Write a part. Of identical ones, such as the headers of two sections, write only one."""
    chunks = body.package.chunks(part)
    first = next(chunks, b"")
    if first in seen:
        return
    seen.add(first)
    with body.writer.draft.guard(CONTENT):
        body.writer.part()
    body.reset(part)
    parse_xml(chain([first], chunks), body, lambda: body.writer.draft.full)


class _Body(XmlHandler):
    # A fallback repeats the element before it for older programs; the others are not text.
    skipped = frozenset(
        ["Fallback", "moveFrom", "tabs", "rPr", "sectPr", "tblPr", "instrText", "pPrChange"]
    )

    def __init__(self, writer: TextWriter, styles: DocxStyles, package: Package) -> None:
        self.writer = writer
        self.take = writer.draft.guard.take
        self.package = package
        self._styles = styles
        self._counts = dict.fromkeys(_NOTE_FORMATS, 0)
        self._labels: dict[tuple[str, str], str] = {}  # of notes
        self.reset("")

    def reset(self, part: str) -> None:
        """Begin another part."""
        self._part = part
        self._charts: list[str] = []  # of the current paragraph, by the ids of their relations
        self._paragraphs: list[Style] = []
        self._boxes: list[list[Style]] = []
        self._in_text = False
        self._properties = ParagraphProperties()
        self._note = ""

    def start(self, tag: str, attributes: Attributes) -> None:
        # The separator between text and notes is stored as a note.
        if tag.endswith("note") and attribute(attributes, "type") in _SEPARATORS:
            self._skipping += 1
        else:
            super().start(tag, attributes)

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "t":
            self._in_text = True
        elif name in _CHARACTERS:
            self.writer.write(_CHARACTERS[name])
        elif name in self._on_start:
            self._on_start[name](self, attributes)
        elif name in _REFERENCES:
            self._refer(_REFERENCES[name], attributes)
        elif name in _NOTE_FORMATS:
            self._note = self._labels.get((name, attribute(attributes, "id")), "")
        elif self._paragraphs:
            self._properties.set(name, attribute(attributes, "val"))

    def on_end(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "p":
            self._end_paragraph()
        elif name == "pPr":
            self._restyle()
        elif name == "txbxContent":
            self.writer.end_aside()
            self._paragraphs = self._boxes.pop()
        elif name == "tr":
            self.writer.end_row()
        elif name == "tbl":
            self.writer.end_table()

    def on_text(self, text: str) -> None:
        if self._in_text:
            self.writer.write(text)

    def _begin_paragraph(self, _: Attributes) -> None:
        self._paragraphs.append(PLAIN)
        self._properties = ParagraphProperties()
        self.writer.begin()

    def _end_paragraph(self) -> None:
        if self._paragraphs:
            self._paragraphs.pop()
        if self._charts and not self._paragraphs:
            self._write_charts()
        # A paragraph around a text box continues after it.
        self.writer.begin(self._paragraphs[-1] if self._paragraphs else PLAIN)

    def _begin_box(self, _: Attributes) -> None:
        self._boxes.append(self._paragraphs)
        self._paragraphs = []
        self.writer.aside()

    def _span(self, attributes: Attributes) -> None:
        self.writer.span(min(int_attribute(attributes, "val", 1), _MAX_SPAN) - 1)

    def _chart(self, attributes: Attributes) -> None:
        self._charts.append(relation_id(attributes))

    def _write_charts(self) -> None:
        """Write the charts of a paragraph after it."""
        charts, self._charts = self._charts, []
        for relation in self.package.relations(self._part):
            if relation.id in charts and relation.target in self.package.names:
                write_chart(self.package, relation.target, self.writer)

    def _note_mark(self, _: Attributes) -> None:
        if self._note:
            self.writer.note(self._note)

    def _restyle(self) -> None:
        """Apply the properties of the paragraph, once all are known."""
        if self._paragraphs:
            self._paragraphs[-1] = self._styles.next_paragraph(self._properties)
            self.writer.style(self._paragraphs[-1])

    def _refer(self, kind: str, attributes: Attributes) -> None:
        """Write the number of a note, unless the text has a mark of its own."""
        if attribute(attributes, "customMarkFollows") in ("", "0", "false"):
            self._counts[kind] += 1
            label = _NOTE_FORMATS[kind](self._counts[kind])
            self._labels[kind, attribute(attributes, "id")] = label
            self.writer.reference(label)

    _on_start: ClassVar[dict[str, Callable[[_Body, Attributes], None]]] = {
        "p": _begin_paragraph, "txbxContent": _begin_box, "gridSpan": _span,
        "chart": _chart,
        "tbl": lambda self, _: self.writer.table(),
        "tr": lambda self, _: self.writer.row(),
        "tc": lambda self, _: self.writer.cell(),
        "footnoteRef": _note_mark, "endnoteRef": _note_mark,
    }  # fmt: skip


READER = Reader("docx", Rank.SIGNATURE, has_main_type(_MAIN_TYPES, "word/document.xml"), _read)
