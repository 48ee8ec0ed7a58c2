"""Attachments and members of archives become documents of their own, within limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Family:
    """The documents that stem from one submitted document: their number and bytes."""

    documents: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PartsRule:
    """Limits of a family at all depths.

    A part of a submitted document has depth 1, a part of that part has depth 2.
    """

    max_depth: int = 5
    max_documents: int = 1_000
    max_bytes: int = 500_000_000

    def accepted(self, depth: int, family: Family, sizes: Sequence[int]) -> int:
        """How many of the first parts of a document at this depth become documents."""
        if depth >= self.max_depth:
            return 0
        room = max(0, self.max_documents - family.documents)
        fits = [total <= self.max_bytes - family.bytes for total in accumulate(sizes)]
        return min(room, sum(fits))
