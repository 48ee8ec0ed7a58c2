"""Ids of documents: sorted by time, so that new ones lie beside each other on disk."""

from __future__ import annotations

import os
from functools import lru_cache

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: nothing to mistake when read out
_LETTER_OF_BYTE = _LETTERS.encode() * 8
_PAIRS = [first + second for first in _LETTERS for second in _LETTERS]


def new_id(now: float, randomness: bytes | None = None) -> str:
    """26 letters: 48 bits of milliseconds, then 80 random bits (a ULID in lower case).

    Each of 16 random bytes gives a letter, by its last five bits.
    """
    milliseconds = int(now * 1000)
    random = (randomness or os.urandom(16)).translate(_LETTER_OF_BYTE)
    return _first_letters(milliseconds >> 10) + _PAIRS[milliseconds & 1023] + random.decode()


@lru_cache(8)
def _first_letters(seconds: int) -> str:
    """Eight of them, which all ids of about a second share."""
    return "".join([_PAIRS[seconds >> shift & 1023] for shift in (30, 20, 10, 0)])


def time_of(id_: str) -> float:
    """When the id was made, to the millisecond."""
    number = 0
    for letter in id_[:10]:
        number = number << 5 | _LETTERS.index(letter)
    return (number & (1 << 48) - 1) / 1000
