"""PowerPoint presentations (pptx)."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.read.base import Extracted, Rank, Reader, Task, library
from fairlead.read.draft import Draft
from fairlead.read.ooxml import add_properties, has_type
from fairlead.read.package import Package, opened
from fairlead.read.source import Source
from fairlead.read.text_writer import PLAIN, TextWriter, heading, item
from fairlead.read.xml import Attributes, Walk, attribute, walk

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
    pen = TextWriter(draft, gap=1)
    with opened(source, task) as package:
        add_properties(package, draft, "docProps/core.xml")
        slides = list(_slides(package))
        draft.fact("pages", len(slides))
        if len(slides) > task.limits.pages:
            draft.warn(f"only the first {task.limits.pages} of {len(slides)} slides were read")
        for slide in slides[: task.limits.pages]:
            pen.page()
            for part in (slide, *_with(package, slide)):
                walk(package.chunks(part), _Slide(pen), lambda: draft.full)
            if draft.full:
                break
    pen.close()
    return draft.finish()


def _slides(package: Package) -> Iterator[str]:
    main = package.main("ppt/presentation.xml")
    order = _Order()
    walk(package.chunks(main), order)
    parts = {relation.id: relation.target for relation in package.relations(main)}
    for key in order.slides:
        if parts.get(key) in package.names:
            yield parts[key]


def _with(package: Package, slide: str) -> Iterator[str]:
    for role in _WITH_SLIDE:
        for relation in package.relations(slide):
            if relation.role == role and relation.target in package.names:
                yield relation.target


class _Order(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.slides: list[str] = []

    def opened(self, name: str, attributes: Attributes) -> None:
        if name == "sldId":
            key = next((k for k in attributes if k.endswith("}id")), "")
            self.slides.append(attributes.get(key, ""))


class _Slide(Walk):
    skipped = frozenset(["Fallback", "rPr", "endParaRPr", "timing"])

    def __init__(self, pen: TextWriter) -> None:
        super().__init__()
        self._pen = pen
        self._in_text = False
        self._holder = ""
        self._in_table = False

    def opened(self, name: str, attributes: Attributes) -> None:
        if name == "ph":
            self._holder = attribute(attributes, "type", "body")
        elif name == "p":
            self._begin(0)
        elif name == "pPr":
            level = attribute(attributes, "lvl", "0")
            self._restyle(int(level) if level.isdecimal() else 0)
        elif name in ("br", "tab"):
            self._pen.write("\n" if name == "br" else "\t")
        elif name == "t":
            self._in_text = True
        elif name in ("tbl", "tr", "tc"):
            {"tbl": self._pen.table, "tr": self._pen.row, "tc": self._pen.cell}[name]()

    def closed(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "sp":
            self._pen.begin()
            self._holder = ""
        elif name == "tr":
            self._pen.end_row()
        elif name == "tbl":
            self._pen.end_table()

    def said(self, text: str) -> None:
        if self._in_text and self._holder not in _FURNITURE:
            self._pen.write(text)

    def _begin(self, level: int) -> None:
        self._pen.begin()
        self._restyle(level)

    def _restyle(self, level: int) -> None:
        if self._holder in _TITLES:
            self._pen.style(heading(2))
        elif self._holder in ("body", "obj"):
            self._pen.style(item(level))
        else:
            self._pen.style(PLAIN)


READER = Reader("pptx", Rank.SIGNATURE, has_type(_MAIN_TYPES, "ppt/presentation.xml"), read)
