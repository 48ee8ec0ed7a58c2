"""Which styles of a Word document are headings or items of lists."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fairlead.read.package import Package
from fairlead.read.text_writer import PLAIN, Style, heading, item
from fairlead.read.xml import Attributes, Walk, attribute, walk

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
                walk(package.chunks(relation.target), target(styles))
            except (
                SyntaxError
            ):  # lxml's errors are of this kind: without styles there is still text
                continue
    return styles


class _Styles(Walk):
    skipped = frozenset(["rPr", "latentStyles", "docDefaults", "tblStylePr", "tblPr"])

    def __init__(self, styles: Styles) -> None:
        super().__init__()
        self._styles = styles
        self._named = _Named()

    def opened(self, name: str, attributes: Attributes) -> None:
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


class _Numbering(Walk):
    def __init__(self, styles: Styles) -> None:
        super().__init__()
        self._styles = styles
        self._abstract = ""
        self._level = 0
        self._number = ""
        self._bullets: dict[tuple[str, int], bool] = {}

    def opened(self, name: str, attributes: Attributes) -> None:
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
