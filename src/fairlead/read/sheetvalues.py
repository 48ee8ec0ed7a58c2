"""How the values of cells are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache

_MOST_BLANKS = 64
_REFERENCE = re.compile(r"([A-Z]{1,3})\d+")
_NOT_DATE = re.compile(r'"[^"]*"|\\.|\[(?![hms]+\])[^\]]*\]|General|[#0?].*?[#0?]', re.IGNORECASE)
_DATES = frozenset([*range(14, 18), 22, *range(27, 37), *range(50, 59)])
_TIMES = frozenset([18, 19, 20, 21, 45, 46, 47])
_LAST_DAY = 2_958_466  # the year 10000


def number(reference: str) -> int:
    """The number of the column in a reference such as C7; 0 where it is none."""
    found = _REFERENCE.fullmatch(reference)
    column = 0
    for letter in found[1] if found else "":
        column = 26 * column + ord(letter) - 64
    return column


def spread(blank: int) -> int:
    """How many empty cells are shown for so many: far-off cells do not make giant rows."""
    return blank if 0 <= blank <= _MOST_BLANKS else int(blank > 0)


def plain(value: float) -> str:
    """A number as people write it: no trace of how machines store it."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"


@lru_cache(maxsize=1_024)
def is_date(code: str) -> tuple[bool, bool]:
    """Whether a number format shows a date, and whether it shows a time of day."""
    if code.isdecimal():
        known = int(code)
        return known in _DATES, known in _TIMES or known == 22
    letters = _NOT_DATE.sub("", code.split(";", maxsplit=1)[0]).lower()
    has_day = "y" in letters or "d" in letters or (letters.count("m") > 2 and "h" not in letters)
    return has_day, "h" in letters or "s" in letters


class Formats:
    """Shows numbers as their style means them: days since 1900 or 1904 as dates."""

    def __init__(self, codes: Sequence[str], *, from_1904: bool) -> None:
        self._codes = codes
        self._start = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 - sheets have no zone

    def show(self, raw: str, style: str) -> str:
        """The number in a cell of this style."""
        try:
            value = float(raw)
        except ValueError:
            return raw
        index = int(style) if style.isdecimal() else 0
        code = self._codes[index] if index < len(self._codes) else ""
        return self.shown(value, code)

    def shown(self, value: float, code: str) -> str:
        """The number in a cell of this format."""
        has_day, has_time = is_date(code)
        if (has_day or has_time) and 0 <= value < _LAST_DAY:
            if not has_day and "[" not in code:
                value %= 1  # the time of a day, whichever
            return self._moment(value, has_day=has_day, has_time=has_time)
        return plain(value)

    def _moment(self, value: float, *, has_day: bool, has_time: bool) -> str:
        moment = self._start + timedelta(seconds=round(value * 86_400))
        if not has_day:
            hours, rest = divmod(round(value * 86_400), 3_600)
            return f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        if has_time:
            return moment.isoformat(sep=" ", timespec="seconds")
        return moment.date().isoformat()
