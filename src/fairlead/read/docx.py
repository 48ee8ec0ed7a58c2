"""Word documents (docx)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from fairlead.read.base import Extracted, Rank, Reader, Source, Task, library
from fairlead.read.draft import Draft
from fairlead.read.package import Package, add_properties, has_main_type, open_package
from fairlead.read.text_writer import PLAIN, Style, TextWriter, heading, item
from fairlead.read.xml import Attributes, XmlHandler, attribute, int_attribute, parse_xml

_MAIN_TYPES = (
    b"wordprocessingml.document.main+xml",
    b"wordprocessingml.template.main+xml",
    b"vnd.ms-word.document.macroEnabled.main+xml",
    b"vnd.ms-word.template.macroEnabledTemplate.main+xml",
)
_CHARACTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SEPARATORS = ("separator", "continuationSeparator", "continuationNotice")
_MAX_SPAN = 64
_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_TITLES = {"title": 1, "subtitle": 2}
_STYLE_FIELDS = {"name": "name", "basedOn": "parent", "outlineLvl": "outline", "numId": "number"}


def _read(source: Source, task: Task) -> Extracted:
    """Headers, paragraphs and tables in order, then footers, footnotes and endnotes."""
    draft = Draft("docx", library("lxml"), task.limits)
    with open_package(source, task) as package:
        add_properties(package, draft)
        main = package.main("word/document.xml")
        body = _Body(TextWriter(draft, gap=1), _read_styles(package, main))
        for part in _parts(package, main):
            body.writer.part()
            body.reset()
            parse_xml(part, body, lambda: draft.full)
            if draft.full:
                break
    return body.writer.finish()


def _parts(package: Package, main: str) -> Iterator[Iterator[bytes]]:
    """Yield the parts that hold text, in reading order.

    Of equal parts, such as the headers of two sections, it yields only one.
    """
    seen = set()
    for role in ("header", "body", "footer", "footnotes", "endnotes"):
        for target in [main] if role == "body" else package.targets(main, role):
            chunks = package.chunks(target)
            first = next(chunks, b"")
            if first not in seen:
                seen.add(first)
                yield chain([first], chunks)


@dataclass(slots=True)
class _NamedStyle:
    """A style as the document defines it."""

    name: str = ""
    parent: str = ""
    outline: str = ""
    number: str = ""
    level: int = 0


@dataclass(slots=True)
class _Styles:
    """Finds out whether a paragraph is a heading or a list item."""

    by_id: dict[str, _NamedStyle] = field(default_factory=dict)
    bullets: dict[tuple[str, int], bool] = field(default_factory=dict)  # of a numbering's level

    def paragraph(self, style_id: str) -> Style:
        for _ in range(10):  # styles may inherit in a circle
            named = self.by_id.get(style_id)
            if named is None:
                break
            style = _heading(named)
            if style:
                return style
            if named.number:
                return self._item(named.number, named.level)
            style_id = named.parent
        return PLAIN

    def numbered(self, style_id: str, number: str, level: int) -> Style | None:
        """Return the style of a paragraph with a numbering; None: as its named style says."""
        if self.paragraph(style_id).mark.startswith("#"):
            return None  # a numbered heading stays a heading
        return PLAIN if number == "0" else self._item(number, level)

    def _item(self, number: str, level: int) -> Style:
        return item(level, numbered=not self.bullets.get((number, level), True))


def _heading(named: _NamedStyle) -> Style | None:
    name = named.name.strip()
    if match := _HEADING.fullmatch(name):
        return heading(int(match[1]))
    title_level = _TITLES.get(name.lower())
    return heading(title_level) if title_level else _outline_heading(named.outline)


def _outline_heading(level: str) -> Style | None:
    return heading(int(level) + 1) if level.isdecimal() and int(level) < 9 else None


def _read_styles(package: Package, main: str) -> _Styles:
    styles = _Styles()
    for relation in package.relations(main):
        handler = {"styles": _StylesHandler, "numbering": _NumberingHandler}.get(relation.role)
        if handler and relation.target in package.names:
            try:
                parse_xml(package.chunks(relation.target), handler(styles))
            except SyntaxError:  # lxml's errors are of this kind: without styles there is text
                continue
    return styles


class _StylesHandler(XmlHandler):
    skipped = frozenset(["rPr", "latentStyles", "docDefaults", "tblStylePr", "tblPr"])

    def __init__(self, styles: _Styles) -> None:
        self._styles = styles
        self._named = _NamedStyle()

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "style":
            self._named = _NamedStyle()
            self._styles.by_id[attribute(attributes, "styleId")] = self._named
        elif name in _STYLE_FIELDS:
            setattr(self._named, _STYLE_FIELDS[name], attribute(attributes, "val"))
        elif name == "ilvl":
            self._named.level = int_attribute(attributes, "val", self._named.level)


class _NumberingHandler(XmlHandler):
    def __init__(self, styles: _Styles) -> None:
        self._styles = styles
        self._abstract = ""
        self._level = 0
        self._number = ""
        self._bullets: dict[tuple[str, int], bool] = {}

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "abstractNum":
            self._abstract = attribute(attributes, "abstractNumId")
        elif name == "lvl":
            self._level = int_attribute(attributes, "ilvl")
        elif name == "numFmt":
            bullet = attribute(attributes, "val") in ("bullet", "none")
            self._bullets[self._abstract, self._level] = bullet
        elif name == "num":
            self._number = attribute(attributes, "numId")
        elif name == "abstractNumId":
            abstract = attribute(attributes, "val")
            for level in range(9):
                if (abstract, level) in self._bullets:
                    bullet = self._bullets[abstract, level]
                    self._styles.bullets[self._number, level] = bullet


class _Body(XmlHandler):
    # A fallback repeats its neighbour for older programs; the others are not text.
    skipped = frozenset(["Fallback", "moveFrom", "tabs", "rPr", "sectPr", "tblPr", "instrText"])

    def __init__(self, writer: TextWriter, styles: _Styles) -> None:
        self.writer = writer
        self._styles = styles
        self.reset()

    def reset(self) -> None:
        """Begin another part."""
        self._paragraphs: list[Style] = []
        self._boxes: list[list[Style]] = []
        self._in_text = False
        self._level = 0
        self._style_id = ""

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
        elif name == "p":
            self._paragraphs.append(PLAIN)
            self._style_id, self._level = "", 0
            self.writer.begin()
        elif name in ("tbl", "tr", "tc"):
            {"tbl": self.writer.table, "tr": self.writer.row, "tc": self.writer.cell}[name]()
        elif name == "txbxContent":
            self._boxes.append(self._paragraphs)
            self._paragraphs = []
            self.writer.aside()
        elif name == "gridSpan":
            self.writer.span(min(int_attribute(attributes, "val", 1), _MAX_SPAN) - 1)
        elif self._paragraphs:
            self._paragraph_property(name, attribute(attributes, "val"))

    def on_end(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "p":
            if self._paragraphs:
                self._paragraphs.pop()
            # A paragraph around a text box continues after it.
            self.writer.begin(self._paragraphs[-1] if self._paragraphs else PLAIN)
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

    def _paragraph_property(self, name: str, value: str) -> None:
        style: Style | None = None
        if name == "pStyle":
            self._style_id = value
            style = self._styles.paragraph(value)
        elif name == "outlineLvl":
            style = _outline_heading(value)
        elif name == "ilvl":
            self._level = int(value) if value.isdecimal() else 0
        elif name == "numId":
            style = self._styles.numbered(self._style_id, value, self._level)
        if style is not None:
            self._paragraphs[-1] = style
            self.writer.style(style)


READER = Reader("docx", Rank.SIGNATURE, has_main_type(_MAIN_TYPES, "word/document.xml"), _read)
