"""PowerPoint presentations (pptx)."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.package import Package, add_properties, has_type, open_package
from fairlead.read.text_writer import PLAIN, TextWriter, heading, item
from fairlead.read.xml import Attributes, XmlHandler, attribute, parse_xml

_MAIN_TYPES = (
    b"presentationml.presentation.main+xml",
    b"presentationml.slideshow.main+xml",
    b"presentationml.template.main+xml",
    b"vnd.ms-powerpoint.presentation.macroEnabled.main+xml",
    b"vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
)
_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")
_WITH_SLIDE = ("notesSlide", "diagramData")


def read(source: Source, task: Task) -> Extracted:
    """Slides in their order with their notes; a form feed between two slides."""
    draft = Draft("pptx", library("lxml"), task.limits)
    writer = TextWriter(draft, gap=1)
    with open_package(source, task) as package:
        add_properties(package, draft, "docProps/core.xml")
        slides = list(_slides(package))
        draft.fact("pages", len(slides))
        if len(slides) > task.limits.pages:
            draft.warn(f"only the first {task.limits.pages} of {len(slides)} slides were read")
        for slide in slides[: task.limits.pages]:
            writer.page()
            for part in (slide, *_with(package, slide)):
                parse_xml(package.chunks(part), _Slide(writer), lambda: draft.full)
            if draft.full:
                break
    writer.close()
    return draft.finish()


def _slides(package: Package) -> Iterator[str]:
    main = package.main("ppt/presentation.xml")
    order = _Order()
    parse_xml(package.chunks(main), order)
    parts = {relation.id: relation.target for relation in package.relations(main)}
    for key in order.slides:
        if parts.get(key) in package.names:
            yield parts[key]


def _with(package: Package, slide: str) -> Iterator[str]:
    for role in _WITH_SLIDE:
        for relation in package.relations(slide):
            if relation.role == role and relation.target in package.names:
                yield relation.target


class _Order(XmlHandler):
    def __init__(self) -> None:
        super().__init__()
        self.slides: list[str] = []

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "sldId":
            key = next((k for k in attributes if k.endswith("}id")), "")
            self.slides.append(attributes.get(key, ""))


class _Slide(XmlHandler):
    skipped = frozenset(["Fallback", "rPr", "endParaRPr", "timing"])

    def __init__(self, writer: TextWriter) -> None:
        super().__init__()
        self._writer = writer
        self._in_text = False
        self._holder = ""
        self._in_table = False

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "ph":
            self._holder = attribute(attributes, "type", "body")
        elif name == "p":
            self._begin(0)
        elif name == "pPr":
            level = attribute(attributes, "lvl", "0")
            self._restyle(int(level) if level.isdecimal() else 0)
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
            self._holder = ""
        elif name == "tr":
            self._writer.end_row()
        elif name == "tbl":
            self._writer.end_table()

    def on_text(self, text: str) -> None:
        if self._in_text and self._holder not in _FURNITURE:
            self._writer.write(text)

    def _begin(self, level: int) -> None:
        self._writer.begin()
        self._restyle(level)

    def _restyle(self, level: int) -> None:
        if self._holder in _TITLES:
            self._writer.style(heading(2))
        elif self._holder in ("body", "obj"):
            self._writer.style(item(level))
        else:
            self._writer.style(PLAIN)


READER = Reader("pptx", Rank.SIGNATURE, has_type(_MAIN_TYPES, "ppt/presentation.xml"), read)
