"""Word documents (docx)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.package import Package, add_properties, has_type, open_package
from fairlead.read.text_writer import PLAIN, Style, TextWriter, heading, item
from fairlead.read.xml import Attributes, XmlHandler, attribute, parse_xml

_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_PROPERTIES = frozenset(["name", "basedOn", "outlineLvl", "numId", "ilvl"])
_TITLES = ("title", "subtitle")


@dataclass(slots=True)
class _Named:
    """A style as the document defines it."""

    name: str = ""
    parent: str = ""
    outline: str = ""
    number: str = ""
    level: int = 0


@dataclass(slots=True)
class Styles:
    """Looks up what a paragraph is."""

    styles: dict[str, _Named] = field(default_factory=dict)
    bullets: dict[tuple[str, int], bool] = field(default_factory=dict)  # of a numbering's level

    def paragraph(self, style: str) -> Style:
        """What paragraphs of this style are."""
        for named in self._ancestry(style):
            found = self._heading(named)
            if found:
                return found
            if named.number:
                return self._item(named.number, named.level)
        return PLAIN

    def outline(self, value: str) -> Style | None:
        """What a paragraph with this outline level is; None: nothing special."""
        return heading(int(value) + 1) if value.isdecimal() and int(value) < 9 else None

    def numbered(self, style: str, number: str, level: int) -> Style | None:
        """What a paragraph of this style with this numbering is; None: as its style says."""
        named = self.paragraph(style)
        if named.mark.startswith("#"):
            return None  # a numbered heading stays a heading
        return PLAIN if number == "0" else self._item(number, level)

    def _item(self, number: str, level: int) -> Style:
        return item(level, numbered=not self.bullets.get((number, level), True))

    def _heading(self, named: _Named) -> Style | None:
        found = _HEADING.fullmatch(named.name.strip())
        if found:
            return heading(int(found[1]))
        if named.name.strip().lower() in _TITLES:
            return heading(1 + (named.name.strip().lower() == "subtitle"))
        return self.outline(named.outline)

    def _ancestry(self, style: str) -> list[_Named]:
        found: list[_Named] = []
        while style in self.styles and len(found) < 10:
            found.append(self.styles[style])
            style = found[-1].parent
        return found


def styles_of(package: Package, main: str) -> Styles:
    """The styles of the document; none where they are missing or damaged."""
    styles = Styles()
    for relation in package.relations(main):
        target = {"styles": _Styles, "numbering": _Numbering}.get(relation.role)
        if target and relation.target in package.names:
            try:
                parse_xml(package.chunks(relation.target), target(styles))
            except (
                SyntaxError
            ):  # lxml's errors are of this kind: without styles there is still text
                continue
    return styles


class _Styles(XmlHandler):
    skipped = frozenset(["rPr", "latentStyles", "docDefaults", "tblStylePr", "tblPr"])

    def __init__(self, styles: Styles) -> None:
        super().__init__()
        self._styles = styles
        self._named = _Named()

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "style":
            self._named = _Named()
            self._styles.styles[attribute(attributes, "styleId")] = self._named
        elif name in _PROPERTIES:
            self._property(name, attribute(attributes, "val"))

    def _property(self, name: str, value: str) -> None:
        if name == "name":
            self._named.name = value
        elif name == "basedOn":
            self._named.parent = value
        elif name == "outlineLvl":
            self._named.outline = value
        elif name == "numId":
            self._named.number = value
        elif name == "ilvl" and value.isdecimal():
            self._named.level = int(value)


class _Numbering(XmlHandler):
    def __init__(self, styles: Styles) -> None:
        super().__init__()
        self._styles = styles
        self._abstract = ""
        self._level = 0
        self._number = ""
        self._bullets: dict[tuple[str, int], bool] = {}

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "abstractNum":
            self._abstract = attribute(attributes, "abstractNumId")
        elif name == "lvl":
            level = attribute(attributes, "ilvl")
            self._level = int(level) if level.isdecimal() else 0
        elif name == "numFmt":
            bullet = attribute(attributes, "val") in ("bullet", "none")
            self._bullets[self._abstract, self._level] = bullet
        elif name == "num":
            self._number = attribute(attributes, "numId")
        elif name == "abstractNumId":
            self._take_over(attribute(attributes, "val"))

    def _take_over(self, abstract: str) -> None:
        for level in range(9):
            bullet = self._bullets.get((abstract, level))
            if bullet is not None:
                self._styles.bullets[self._number, level] = bullet


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
    with open_package(source, task) as package:
        add_properties(package, draft, "docProps/core.xml")
        main = package.main("word/document.xml")
        text = _Text(TextWriter(draft, gap=1), styles_of(package, main))
        for part in _parts(package, main):
            text.writer.part()
            text.reset()
            parse_xml(part, text, lambda: draft.full)
            if draft.full:
                break
    text.writer.close()
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


class _Text(XmlHandler):
    # A fallback repeats what stands beside it for older programs; the others are no text.
    skipped = frozenset(["Fallback", "moveFrom", "tabs", "rPr", "sectPr", "tblPr", "instrText"])

    def __init__(self, writer: TextWriter, styles: Styles) -> None:
        super().__init__()
        self.writer = writer
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

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "t":
            self._in_text = True
        elif name in _MARKS:
            self.writer.write(_MARKS[name])
        elif name == "p":
            self._begin_paragraph()
        elif name in ("tbl", "tr", "tc"):
            {"tbl": self.writer.table, "tr": self.writer.row, "tc": self.writer.cell}[name]()
        elif name == "txbxContent":
            self._boxes.append(self._paragraphs)
            self._paragraphs = []
            self.writer.aside()
        elif name == "gridSpan":
            self._span(attribute(attributes, "val"))
        elif self._paragraphs:
            self._property(name, attribute(attributes, "val"))

    def on_end(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "p":
            self._end_paragraph()
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

    def _begin_paragraph(self) -> None:
        self._paragraphs.append(PLAIN)
        self._style, self._level = "", 0
        self.writer.begin()

    def _end_paragraph(self) -> None:
        if self._paragraphs:
            self._paragraphs.pop()
        # A paragraph around a text box goes on after it.
        self.writer.begin(self._paragraphs[-1] if self._paragraphs else PLAIN)

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
            self.writer.style(found)

    def _span(self, value: str) -> None:
        blank = min(int(value), _MAX_SPAN) - 1 if value.isdecimal() else 0
        self.writer.span(blank)


READER = Reader("docx", Rank.SIGNATURE, has_type(_MAIN_TYPES, "word/document.xml"), read)
