"""PowerPoint presentations (pptx)."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.chart import write_chart
from fairlead.read.draft import Draft
from fairlead.read.error_guard import CONTENT
from fairlead.read.package import Package, add_properties, has_main_type, open_package
from fairlead.read.text_writer import PLAIN, TextWriter, heading, item
from fairlead.read.xml import (
    Attributes,
    XmlHandler,
    attribute,
    int_attribute,
    parse_xml,
    relation_id,
)

_MAIN_TYPES = (
    b"presentationml.presentation.main+xml",
    b"presentationml.slideshow.main+xml",
    b"presentationml.template.main+xml",
    b"vnd.ms-powerpoint.presentation.macroEnabled.main+xml",
    b"vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
)
_TITLES = ("title", "ctrTitle")
_NOT_CONTENT = ("sldNum", "dt", "ftr", "hdr", "sldImg")


def _read(source: Source, task: Task) -> Extracted:
    """Slides in their order with their notes; a form feed between two slides."""
    draft = Draft("pptx", library("lxml"), task.limits)
    writer = TextWriter(draft, gap=1)
    with open_package(source, task) as package:
        add_properties(package, draft)
        slides = list(_slides(package))
        wanted = draft.limit_pages(len(slides), "slides")
        for number, slide in enumerate(slides[:wanted], start=1):
            with draft.guard.page(number, "slide"):
                writer.page()
                _write_slide(package, slide, writer)
            if draft.full:
                break
    return writer.finish()


def _write_slide(package: Package, slide: str, writer: TextWriter) -> None:
    """Write a slide, its charts, notes and diagrams."""

    def write(part: str) -> None:
        parse_xml(package.chunks(part), _Slide(writer), lambda: writer.draft.full)

    write(slide)
    with writer.draft.guard(CONTENT):
        for chart in package.targets(slide, "chart"):
            write_chart(package, chart, writer)
        for part in (*package.targets(slide, "notesSlide"), *package.targets(slide, "diagramData")):
            with writer.draft.guard(CONTENT):
                write(part)


def _slides(package: Package) -> Iterator[str]:
    main = package.main("ppt/presentation.xml")
    order = _SlideOrder()
    parse_xml(package.chunks(main), order)
    parts = {relation.id: relation.target for relation in package.relations(main)}
    for slide in order.slides:
        if parts.get(slide) in package.names:
            yield parts[slide]


class _SlideOrder(XmlHandler):
    def __init__(self) -> None:
        self.slides: list[str] = []

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "sldId":
            self.slides.append(relation_id(attributes))


class _Slide(XmlHandler):
    skipped = frozenset(["Fallback", "rPr", "endParaRPr", "timing"])

    def __init__(self, writer: TextWriter) -> None:
        self._writer = writer
        self.take = writer.draft.guard.take
        self._in_text = False
        self._placeholder = ""

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "ph":
            self._placeholder = attribute(attributes, "type", "body")
        elif name == "p":
            self._writer.begin()
            self._restyle(0)
        elif name == "pPr":
            self._restyle(int_attribute(attributes, "lvl"))
        elif name in ("br", "tab"):
            self._writer.write("\n" if name == "br" else "\t")
        elif name == "t":
            self._in_text = True
        elif name in ("tbl", "tr", "tc"):
            {"tbl": self._writer.table, "tr": self._writer.row, "tc": self._writer.cell}[name]()

    def on_end(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "sp":
            self._writer.begin()
            self._placeholder = ""
        elif name == "tr":
            self._writer.end_row()
        elif name == "tbl":
            self._writer.end_table()

    def on_text(self, text: str) -> None:
        if self._in_text and self._placeholder not in _NOT_CONTENT:
            self._writer.write(text)

    def _restyle(self, level: int) -> None:
        if self._placeholder in _TITLES:
            self._writer.style(heading(2))
        elif self._placeholder in ("body", "obj"):
            self._writer.style(item(level))
        else:
            self._writer.style(PLAIN)


READER = Reader("pptx", Rank.SIGNATURE, has_main_type(_MAIN_TYPES, "ppt/presentation.xml"), _read)
