"""Which of our languages somebody reads best. Whatever is asked for, one of them is the answer."""

from __future__ import annotations

from collections.abc import Mapping

LANGUAGES = ("en", "es", "pt", "pl", "de")
DEFAULT = "en"
_MOST_CHARACTERS = 1000


def negotiate(accepted: str | None) -> str:
    """The best language for a header `Accept-Language`; English where none fits. Never raises."""
    best, best_quality = DEFAULT, 0.0
    for part in (accepted or "")[:_MOST_CHARACTERS].split(","):
        tag, _, parameters = part.partition(";")
        language, quality = _language(tag), _quality(parameters)
        if language is not None and quality > best_quality:
            best, best_quality = language, quality
    return best


def language_of(environment: Mapping[str, str]) -> str:
    """The language of a process, by the variables that tell it, such as LANG=de_AT.UTF-8."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if environment.get(name):
            return _language(environment[name].partition(".")[0]) or DEFAULT
    return DEFAULT


def _language(tag: str) -> str | None:
    """Ours for a tag such as de, de-AT or de_AT; regions make no difference."""
    first = tag.strip().lower().replace("_", "-").partition("-")[0]
    if first == "*":
        return DEFAULT
    return first if first in LANGUAGES else None


def _quality(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if not name:
        return 1.0
    try:
        quality = float(value) if name.strip().lower() == "q" else 1.0
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0
