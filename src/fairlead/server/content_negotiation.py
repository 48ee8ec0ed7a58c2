"""Which of the media types at hand a client likes best."""

from __future__ import annotations

from collections.abc import Sequence


def best_type(accept: str | None, at_hand: Sequence[str]) -> str | None:
    """The one that the Accept header likes best; of equals the first at hand; None: none at all."""
    if not accept or not accept.strip():
        return at_hand[0]
    liked = [_parsed(each) for each in accept.split(",")]
    rated = [(_quality(media_type, liked), media_type) for media_type in at_hand]
    best = max(quality for quality, _ in rated)
    return next(name for quality, name in rated if quality == best) if best > 0 else None


def _parsed(term: str) -> tuple[str, float]:
    name, *params = (part.strip() for part in term.lower().split(";"))
    for param in params:
        if param.startswith("q="):
            return name, _weight(param[2:])
    return name, 1.0


def _weight(given: str) -> float:
    """A number from 0 to 1; anything else is 0."""
    try:
        found = float(given)
    except ValueError:
        return 0.0
    return found if 0 <= found <= 1 else 0.0


def _quality(media_type: str, liked: Sequence[tuple[str, float]]) -> float:
    """By the most exact term that names the type."""
    for name in (media_type, media_type.partition("/")[0] + "/*", "*/*"):
        found = [quality for term, quality in liked if term == name]
        if found:
            return max(found)
    return 0.0
