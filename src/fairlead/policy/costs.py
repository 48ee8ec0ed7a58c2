"""What a document will cost, guessed before anybody opens it, and learnt from those that were read.

Documents of one shape and about one length cost about the same. So the table of what was learnt has
one row for each shape and each doubling of length: pages where the first bytes tell, else bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead.model.documents import Sniff

LEAST_SECONDS = 0.001
MEMORY = 50
"""Documents over which a row's mean looks back."""
_FURTHEST = 6
"""Doublings over which a neighbouring row still tells something."""

# Before anything was learnt: seconds for a document, and for each page or kilobyte of it.
_AT_FIRST = {
    ("pdf", "pages"): (0.01, 0.01),
    ("pdf", "bytes"): (0.02, 0.0002),
    ("image", "bytes"): (1.0, 0.001),
}
_OTHERS_AT_FIRST = (0.01, 0.0001)


class Row(NamedTuple):
    """Which row of the table a document belongs to: shape, unit of length, doublings of it."""

    shape: str
    by: str
    doublings: int


class LearnedCosts(NamedTuple):
    """One row: the mean seconds of work, and over how many documents (at most the memory)."""

    documents: int
    seconds: float


def row_of(look: Sniff, size: int) -> Row:
    """The row of a document of so many bytes."""
    if look.pages is not None:
        return Row(look.shape, "pages", look.pages.bit_length())
    return Row(look.shape, "bytes", (size // 1024).bit_length())


def learn(before: LearnedCosts | None, seconds: float) -> LearnedCosts:
    """The row after one more document: a mean that follows what is new."""
    known = before or LearnedCosts(0, 0.0)
    documents = min(known.documents + 1, MEMORY)
    return LearnedCosts(documents, known.seconds + (seconds - known.seconds) / documents)


def estimate(row: Row, known: Mapping[int, LearnedCosts]) -> float:
    """Seconds of work for a document of this row.

    `known` are the learnt rows of the same shape and unit, by doublings. The nearest one counts,
    scaled by length; where none is near, a first guess stands.
    """
    near = min(known, key=lambda each: (abs(each - row.doublings), each), default=None)
    if near is None or abs(near - row.doublings) > _FURTHEST:
        base, each = _AT_FIRST.get((row.shape, row.by), _OTHERS_AT_FIRST)
        return base + each * 2.0**row.doublings
    return max(LEAST_SECONDS, known[near].seconds * 2.0 ** (row.doublings - near))
