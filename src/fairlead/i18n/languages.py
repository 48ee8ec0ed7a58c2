"""The languages: negotiation, and the formats of numbers, times and plurals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

DEFAULT = "en"
_MOST_CHARACTERS = 1000
_NO_BREAK_SPACE = "\u00a0"


class Format(NamedTuple):
    """`least_grouped` is the first number with separators; `form` maps numbers to plural forms."""

    decimal: str
    group: str
    least_grouped: int
    time: str
    forms: int
    form: Callable[[int], int]


def _polish(number: int) -> int:
    """Form 0 for 1; form 1 for numbers that end in 2 to 4, but not in 12 to 14; else form 2."""
    if number == 1:
        return 0
    return 1 if 2 <= number % 10 <= 4 and not 12 <= number % 100 <= 14 else 2


FORMATS = {
    "en": Format(".", ",", 1000, "%d/%m/%Y, %H:%M", 2, lambda number: int(number != 1)),
    "es": Format(",", ".", 10_000, "%d/%m/%Y, %H:%M", 2, lambda number: int(number != 1)),
    "pt": Format(",", ".", 1000, "%d/%m/%Y, %H:%M", 2, lambda number: int(number > 1)),
    "pl": Format(",", _NO_BREAK_SPACE, 10_000, "%d.%m.%Y, %H:%M", 3, _polish),
    "de": Format(",", ".", 1000, "%d.%m.%Y, %H:%M", 2, lambda number: int(number != 1)),
}
LANGUAGES = tuple(FORMATS)


def negotiate(accepted: str | None) -> str:
    """The best language for a header `Accept-Language`; English if none fits. Never raises."""
    best, best_quality = DEFAULT, 0.0
    for part in (accepted or "")[:_MOST_CHARACTERS].split(","):
        tag, _, parameters = part.partition(";")
        language, quality = _language(tag), _quality(parameters)
        if language is not None and quality > best_quality:
            best, best_quality = language, quality
    return best


def language_of(environment: Mapping[str, str]) -> str:
    """The language of a process by its environment variables, such as LANG=de_AT.UTF-8."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if environment.get(name):
            return _language(environment[name].partition(".")[0]) or DEFAULT
    return DEFAULT


def _language(tag: str) -> str | None:
    """The language of a tag such as de, de-AT or de_AT; regions are ignored."""
    first = tag.strip().lower().replace("_", "-").partition("-")[0]
    if first == "*":
        return DEFAULT
    return first if first in LANGUAGES else None


def _quality(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    try:
        quality = float(value) if name.strip().lower() == "q" else 1.0
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0
