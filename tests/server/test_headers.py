"""Accept headers."""

from __future__ import annotations

import pytest

from fairlead.server.headers import best_type

TYPES = ("text/plain", "text/markdown", "application/json")


@pytest.mark.parametrize(
    ("accept", "best"),
    [
        (None, "text/plain"),
        ("*/*", "text/plain"),
        ("text/markdown;q=0.9, text/plain;q=0.1", "text/markdown"),
        ("application/*", "application/json"),
        ("text/plain;q=0, */*;q=0.1", "text/markdown"),
        ("image/png", None),
        ("text/plain;q=x", None),
        ("text/plain;q=nan, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=inf, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=1.1, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=-1, text/markdown;q=0.1", "text/markdown"),
        ("text/plain;q=-0.5", None),
    ],
)
def test_the_best_type_is_found(accept: str | None, best: str | None) -> None:
    assert best_type(accept, TYPES) == best
