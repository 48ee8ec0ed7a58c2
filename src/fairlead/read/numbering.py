"""Numbers of clauses and list items as a document shows them: 4.2, (a), iv."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

LEVELS = 10
_MAX_LABEL = 60
_MAX_LETTERS = 26 * 5
_PLACEHOLDER = re.compile("%([1-9])")
_ROMANS = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


def roman(number: int) -> str:
    """Return a number in small Roman figures; in Arabic ones if that is not possible."""
    if not 0 < number < 4_000:
        return str(number)
    figures = ""
    for value, figure in _ROMANS:
        count, number = divmod(number, value)
        figures += figure * count
    return figures


def letters(number: int) -> str:
    """Return a to z, then aa, bb and so on; the number itself if that is not possible."""
    if not 0 < number <= _MAX_LETTERS:
        return str(number)
    return chr(ord("a") + (number - 1) % 26) * (1 + (number - 1) // 26)


NUMBER_FORMATS: Mapping[str, Callable[[int], str]] = {
    "decimal": str,
    "decimal-zero": "{:02}".format,
    "letters": letters,
    "LETTERS": lambda number: letters(number).upper(),
    "roman": roman,
    "ROMAN": lambda number: roman(number).upper(),
    "none": lambda _: "",
}


@dataclass(slots=True)
class Level:
    """How one level of a list is numbered; `%2` in `text` is the number of level 2."""

    format: str = "decimal"  # a key of NUMBER_FORMATS, or bullet
    text: str = ""
    start: int = 1
    legal: bool = False  # whether all numbers are shown as 1, 2, 3
    restarts: bool = True  # after a number of a level above

    @property
    def is_bullet(self) -> bool:
        return self.format == "bullet"


Levels = Mapping[int, Level]
_USUAL = Level()


@dataclass(slots=True)
class ListCounter:
    """The numbers that a list has reached, by level; the topmost level is 0."""

    values: dict[int, int] = field(default_factory=dict)

    def restart(self, level: int, start: int) -> None:
        """Let the next number of this level be `start`."""
        self.values[level] = start - 1

    def advance(self, level: int, levels: Levels) -> str:
        """Count one more item of the level; return its label, empty for a bullet."""
        for deeper in [other for other in self.values if other > level]:
            if levels.get(deeper, _USUAL).restarts:
                del self.values[deeper]
        own = levels.get(level, _USUAL)
        self.values[level] = self.values.get(level, own.start - 1) + 1
        return "" if own.is_bullet else self._label(own, levels)

    def _label(self, own: Level, levels: Levels) -> str:
        def number(match: re.Match[str]) -> str:
            level = int(match[1]) - 1
            shown = levels.get(level, _USUAL)
            value = self.values.get(level, shown.start)
            return str(value) if own.legal else NUMBER_FORMATS.get(shown.format, str)(value)

        return _PLACEHOLDER.sub(number, own.text[:_MAX_LABEL]).strip()[:_MAX_LABEL]
