"""Lists and numbered headings of OpenDocument texts."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.read.numbering import LEVELS, Level, ListCounter
from fairlead.read.text_writer import PLAIN, Style, heading, item
from fairlead.read.xml import Attributes, attribute, int_attribute

_FORMATS = {
    "1": "decimal", "01": "decimal-zero", "a": "letters", "A": "LETTERS", "i": "roman",
    "I": "ROMAN", "": "none",
}  # fmt: skip
_MAX_ANCESTORS = 10  # styles may inherit in a circle
_OUTLINE = "Outline"
_BULLETS = ("list-level-style-bullet", "list-level-style-image")
_NUMBERS = ("list-level-style-number", "outline-level-style")


class ListStyles:
    """How lists and headings are numbered."""

    def __init__(self) -> None:
        self._lists: dict[str, dict[int, Level]] = {}
        self._levels: dict[int, Level] = {}
        self._parents: dict[str, str] = {}
        self._of_paragraphs: dict[str, str] = {}  # the list style of a paragraph style

    def on_start(self, name: str, attributes: Attributes) -> None:
        """Handle an element of the styles."""
        if name in ("list-style", "outline-style"):
            key = attribute(attributes, "name") if name == "list-style" else _OUTLINE
            self._levels = self._lists[key] = {}
        elif name in _NUMBERS or name in _BULLETS:
            number = int_attribute(attributes, "level", 1) - 1
            if 0 <= number < LEVELS:
                self._levels[number] = _level(name, number, attributes)
        elif name == "style" and attribute(attributes, "family") == "paragraph":
            self._add_paragraph_style(attributes)

    def _add_paragraph_style(self, attributes: Attributes) -> None:
        name = attribute(attributes, "name")
        self._parents[name] = attribute(attributes, "parent-style-name")
        list_style = attribute(attributes, "list-style-name", _OUTLINE)
        if list_style != _OUTLINE:
            self._of_paragraphs[name] = list_style

    def levels(self, list_style: str) -> dict[int, Level]:
        return self._lists.get(list_style, {})

    def of_paragraph(self, style: str) -> str | None:
        """Return the list style of a paragraph style; None if it has none."""
        for _ in range(_MAX_ANCESTORS):
            if style in self._of_paragraphs:
                return self._of_paragraphs[style]
            style = self._parents.get(style, "")
        return None


def _level(name: str, number: int, attributes: Attributes) -> Level:
    if name in _BULLETS:
        return Level("bullet")
    shown = min(max(int_attribute(attributes, "display-levels", 1), 1), number + 1)
    numbers = ".".join(f"%{level}" for level in range(number + 2 - shown, number + 2))
    number_format = _FORMATS.get(attribute(attributes, "num-format"), "decimal")
    numbers = "" if number_format == "none" else numbers
    text = attribute(attributes, "num-prefix") + numbers + attribute(attributes, "num-suffix")
    return Level(number_format, text, int_attribute(attributes, "start-value", 1))


@dataclass(slots=True)
class OpenList:
    """A list being read; lists within it share its counter."""

    style: str
    counter: ListCounter
    is_numbered: bool = False  # whether the current item has its number already


@dataclass(slots=True)
class Lists:
    """Counts the items of lists and the headings, in the order in which they are read."""

    styles: ListStyles
    _open: list[OpenList] = field(default_factory=list)
    _by_id: dict[str, ListCounter] = field(default_factory=dict)
    _last: dict[str, ListCounter] = field(default_factory=dict)  # by style
    _outline: ListCounter = field(default_factory=ListCounter)

    def set_aside(self) -> list[OpenList]:
        """Suspend the open lists, for a note or a frame; `restore` continues them."""
        lists, self._open = self._open, []
        return lists

    def restore(self, lists: list[OpenList]) -> None:
        self._open = lists

    def begin(self, attributes: Attributes) -> None:
        style = attribute(attributes, "style-name")
        if self._open:
            outer = self._open[-1]
            self._open.append(OpenList(style or outer.style, outer.counter))
            return
        continued = attribute(attributes, "continue-list")
        counter = self._by_id.get(continued) if continued else None
        if counter is None and attribute(attributes, "continue-numbering") == "true":
            counter = self._last.get(style)
        counter = counter or ListCounter()
        self._last[style] = self._by_id[attribute(attributes, "id")] = counter
        self._open.append(OpenList(style, counter))

    def end(self) -> None:
        if self._open:
            self._open.pop()

    def begin_item(self, attributes: Attributes) -> None:
        if self._open:
            self._open[-1].is_numbered = False
            if attribute(attributes, "start-value"):
                start = int_attribute(attributes, "start-value", 1)
                self._open[-1].counter.restart(len(self._open) - 1, start)

    def begin_header(self, _: Attributes) -> None:
        """Begin an item without a number."""
        if self._open:
            self._open[-1].is_numbered = True

    def paragraph(self) -> Style:
        """Return the style of the next paragraph; the first one of an item gets the number."""
        if not self._open or self._open[-1].is_numbered:
            return PLAIN
        return item(len(self._open) - 1, label=self._next_label())

    def heading(self, level: int, attributes: Attributes) -> Style:
        """Return the style of the next heading, with its number if it has one."""
        if self._open:
            return heading(level, "" if self._open[-1].is_numbered else self._next_label())
        is_header = attribute(attributes, "is-list-header") == "true"
        levels = self.styles.levels(_OUTLINE)
        own = self.styles.of_paragraph(attribute(attributes, "style-name"))
        if is_header or own == "" or not 0 < level <= LEVELS or level - 1 not in levels:
            return heading(level)
        return heading(level, self._outline.advance(level - 1, levels))

    def _next_label(self) -> str:
        current = self._open[-1]
        current.is_numbered = True
        levels = self.styles.levels(current.style)
        return current.counter.advance(min(len(self._open), LEVELS) - 1, levels)
