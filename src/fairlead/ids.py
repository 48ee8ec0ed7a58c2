"""Ids of documents: sorted by time, so that new ones lie beside each other on disk."""

from __future__ import annotations

import os
from functools import lru_cache

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: nothing to mistake when read out
_PAIRS = [first + second for first in _LETTERS for second in _LETTERS]


def new_id(now: float, randomness: bytes | None = None) -> str:
    """26 letters: 48 bits of milliseconds, then 80 random bits (a ULID in lower case)."""
    number = int.from_bytes(randomness or os.urandom(10))
    return _letters(int(now * 1000)) + "".join(
        [_PAIRS[number >> shift & 1023] for shift in (70, 60, 50, 40, 30, 20, 10, 0)]
    )


@lru_cache(8)
def _letters(milliseconds: int) -> str:
    """The first ten; many ids are made in one millisecond."""
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in (40, 30, 20, 10, 0)])


def time_of(id_: str) -> float:
    """When the id was made, to the millisecond."""
    number = 0
    for letter in id_[:10]:
        number = number << 5 | _LETTERS.index(letter)
    return (number & (1 << 48) - 1) / 1000
