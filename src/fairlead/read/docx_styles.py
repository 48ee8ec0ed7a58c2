"""Styles and numberings of a Word document (docx)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fairlead.read.error_guard import HEADINGS, ErrorGuard
from fairlead.read.numbering import LEVELS, Level, ListCounter
from fairlead.read.package import Package
from fairlead.read.text_writer import PLAIN, Style, heading, item
from fairlead.read.xml import Attributes, XmlHandler, attribute, int_attribute, parse_xml

_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_TITLES = {"title": 1, "subtitle": 2}
_MAX_ANCESTORS = 10  # styles may inherit in a circle
_NO_NUMBER = "0"
_FORMATS = {
    "decimalZero": "decimal-zero", "lowerLetter": "letters", "upperLetter": "LETTERS",
    "lowerRoman": "roman", "upperRoman": "ROMAN", "none": "none", "bullet": "bullet",
}  # fmt: skip


@dataclass(slots=True)
class ParagraphProperties:
    """The properties that give a paragraph or a style its role; empty if they are not set."""

    style: str = ""
    outline: str = ""
    number: str = ""  # of a numbering
    level: str = ""

    def set(self, name: str, value: str) -> None:
        """Take the value of an element."""
        attribute_name = _PROPERTIES.get(name)
        if attribute_name:
            setattr(self, attribute_name, value)


_PROPERTIES = {"pStyle": "style", "outlineLvl": "outline", "numId": "number", "ilvl": "level"}


@dataclass(slots=True)
class _DocxStyle:
    """A style as the document defines it."""

    name: str = ""
    parent: str = ""
    properties: ParagraphProperties = field(default_factory=ParagraphProperties)


@dataclass(slots=True)
class _DocxList:
    """A list as the document defines it; several numberings may continue it."""

    levels: dict[int, Level] = field(default_factory=dict)
    of_style: dict[str, int] = field(default_factory=dict)  # the level that a style uses
    link: str = ""  # the style whose list is meant
    name: str = ""  # the style that is defined by this list
    counter: ListCounter = field(default_factory=ListCounter)


@dataclass(slots=True)
class _Numbering:
    """A use of a list, with numbers and levels that may differ from those of the list."""

    list_id: str = ""
    starts: dict[int, int] = field(default_factory=dict)
    levels: dict[int, Level] = field(default_factory=dict)


@dataclass(slots=True)
class DocxStyles:
    """Determines whether a paragraph is a heading or a list item, and its number."""

    by_id: dict[str, _DocxStyle] = field(default_factory=dict)
    lists: dict[str, _DocxList] = field(default_factory=dict)
    numberings: dict[str, _Numbering] = field(default_factory=dict)

    def next_paragraph(self, own: ParagraphProperties) -> Style:
        """Return the style of the next paragraph; its number counts."""
        title, inherited = self._inherited(own.style)
        title = title or _outline_level(own.outline)
        number = own.number or inherited.number
        if not number or number == _NO_NUMBER:
            return heading(title) if title else PLAIN
        level, label, is_shown = self._next_number(own, inherited, number)
        if title:
            return heading(title, label)
        return item(level, label=label) if is_shown else PLAIN

    def _inherited(self, style_id: str) -> tuple[int, ParagraphProperties]:
        """Return the level as a heading, or 0, and the numbering of a style and its ancestors."""
        title, number, level = 0, "", ""
        for _ in range(_MAX_ANCESTORS):
            style = self.by_id.get(style_id)
            if style is None:
                break
            title = title or _heading_level(style)
            if not number:
                number = style.properties.number
                level = level or style.properties.level
            style_id = style.parent
        return title, ParagraphProperties(number=number, level=level)

    def _next_number(
        self, own: ParagraphProperties, inherited: ParagraphProperties, number: str
    ) -> tuple[int, str, bool]:
        """Return the level, the label, and whether there is a label or bullet at all."""
        numbering = self.numberings.get(number) or _Numbering()
        docx_list = self._list(numbering.list_id)
        of_style = str(docx_list.of_style.get(own.style, 0))
        raw_level = own.level or (of_style if own.number else inherited.level or of_style)
        level = int(raw_level) if raw_level.isdecimal() and int(raw_level) < LEVELS else 0
        levels = {**docx_list.levels, **numbering.levels} if numbering.levels else docx_list.levels
        if level in numbering.starts:
            docx_list.counter.restart(level, numbering.starts.pop(level))
        label = docx_list.counter.advance(level, levels)
        return level, label, bool(label) or level not in levels or levels[level].is_bullet

    def _list(self, list_id: str) -> _DocxList:
        docx_list = self.lists.setdefault(list_id, _DocxList())
        if docx_list.link and not docx_list.levels:
            linked_lists = (other for other in self.lists.values() if other.name == docx_list.link)
            docx_list = self.lists[list_id] = next(linked_lists, docx_list)
        return docx_list


def _heading_level(style: _DocxStyle) -> int:
    name = style.name.strip()
    if match := _HEADING.fullmatch(name):
        return int(match[1])
    return _TITLES.get(name.lower()) or _outline_level(style.properties.outline)


def _outline_level(level: str) -> int:
    return int(level) + 1 if level.isdecimal() and int(level) < 9 else 0


def read_styles(package: Package, main: str, guard: ErrorGuard) -> DocxStyles:
    """Read the styles and numberings that the main part refers to; damaged ones are left out."""
    styles = DocxStyles()
    with guard(HEADINGS):
        for relation in package.relations(main):
            handler = {"styles": _StylesHandler, "numbering": _NumberingHandler}.get(relation.role)
            if handler and relation.target in package.names:
                with guard(HEADINGS):
                    parse_xml(package.chunks(relation.target), handler(styles))
    return styles


class _StylesHandler(XmlHandler):
    skipped = frozenset(["rPr", "latentStyles", "docDefaults", "tblStylePr", "tblPr", "pPrChange"])

    def __init__(self, styles: DocxStyles) -> None:
        self._styles = styles
        self._style = _DocxStyle()

    def on_start(self, name: str, attributes: Attributes) -> None:
        if name == "style":
            self._style = _DocxStyle()
            self._styles.by_id[attribute(attributes, "styleId")] = self._style
        elif name == "name":
            self._style.name = attribute(attributes, "val")
        elif name == "basedOn":
            self._style.parent = attribute(attributes, "val")
        else:
            self._style.properties.set(name, attribute(attributes, "val"))


class _NumberingHandler(XmlHandler):
    skipped = frozenset(["pPr", "rPr"])

    def __init__(self, styles: DocxStyles) -> None:
        self._styles = styles
        self._list = _DocxList()
        self._numbering: _Numbering | None = None
        self._level_number = 0
        self._level = Level()

    def on_start(self, name: str, attributes: Attributes) -> None:
        value = attribute(attributes, "val")
        if name == "abstractNum":
            self._list = _DocxList()
            self._styles.lists[attribute(attributes, "abstractNumId")] = self._list
        elif name == "num":
            self._numbering = _Numbering()
            self._styles.numberings[attribute(attributes, "numId")] = self._numbering
        elif name == "lvl":
            self._begin_level(int_attribute(attributes, "ilvl"))
        elif name == "lvlOverride":
            self._level_number = int_attribute(attributes, "ilvl")
        elif name == "startOverride" and self._numbering:
            self._numbering.starts[self._level_number] = int_attribute(attributes, "val", 1)
        elif name == "abstractNumId" and self._numbering:
            self._numbering.list_id = value
        elif name in ("numStyleLink", "styleLink"):
            setattr(self._list, "link" if name == "numStyleLink" else "name", value)
        else:
            self._level_property(name, value)

    def _begin_level(self, number: int) -> None:
        self._level_number, self._level = number, Level()
        levels = self._list.levels if self._numbering is None else self._numbering.levels
        if number < LEVELS:
            levels[number] = self._level

    def _level_property(self, name: str, value: str) -> None:
        if name == "start":
            self._level.start = int(value) if value.isdecimal() else 1
        elif name == "numFmt":
            self._level.format = _FORMATS.get(value, "decimal")
        elif name == "lvlText":
            self._level.text = value
        elif name == "isLgl":
            self._level.legal = value not in ("0", "false")
        elif name == "lvlRestart":
            self._level.restarts = value != "0"
        elif name == "pStyle":
            self._list.of_style[value] = self._level_number
