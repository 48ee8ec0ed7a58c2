"""How each language writes numbers and times, and which form of a plural a number asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Format(NamedTuple):
    """One language. `least_grouped` is the first number with a mark between its thousands."""

    decimal: str
    group: str
    least_grouped: int
    moment: str
    forms: int
    form: Callable[[int], int]


def _other_than_one(number: int) -> int:
    return int(number != 1)


def _more_than_one(number: int) -> int:
    return int(number > 1)


def _polish(number: int) -> int:
    """One; two to four, but not twelve to fourteen; all others."""
    if number == 1:
        return 0
    is_few = 2 <= number % 10 <= 4 and not 12 <= number % 100 <= 14
    return 1 if is_few else 2


_SPACE = "\u00a0"  # that does not break

FORMATS = {
    "en": Format(".", ",", 1000, "%d/%m/%Y, %H:%M", 2, _other_than_one),
    "es": Format(",", ".", 10_000, "%d/%m/%Y, %H:%M", 2, _other_than_one),
    "pt": Format(",", ".", 1000, "%d/%m/%Y, %H:%M", 2, _more_than_one),
    "pl": Format(",", _SPACE, 10_000, "%d.%m.%Y, %H:%M", 3, _polish),
    "de": Format(",", ".", 1000, "%d.%m.%Y, %H:%M", 2, _other_than_one),
}
