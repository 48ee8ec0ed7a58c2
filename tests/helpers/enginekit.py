"""Documents for engines: many that are read in no time, and one that takes a while."""

from __future__ import annotations

from fairlead.demo.samples import samples


def letters(number: int) -> list[tuple[bytes, str]]:
    return [(f"letter {position}".encode(), f"{position}.txt") for position in range(number)]


def long_document() -> tuple[bytes, str]:
    """A PDF of hundreds of pages: whoever reads it is in the middle of it for a while."""
    sample = next(samples(1, seed=3, pages=(500, 500)))
    return sample.content, sample.name
