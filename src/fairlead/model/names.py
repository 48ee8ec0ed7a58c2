"""The rules for names of customers and documents, and for new ids. Names are never paths."""

from __future__ import annotations

import os
import unicodedata
from functools import lru_cache

from fairlead.errors import InvalidCustomer, InvalidName, Message, UsageError

LONGEST_CUSTOMER = 200
LONGEST_KEY = 255
LONGEST_NAME = 255
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""The letters of ids, without i, l, o and u, which are easily mistaken for others."""
_LETTER_OF_BYTE = LETTERS.encode() * 8
BIDI_CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""They reorder the letters of a name on the screen, which can disguise an extension."""
_PAIRS = [first + second for first in LETTERS for second in LETTERS]


def check_customer(name: str, *, slashes: bool = False) -> str:
    """The name of a customer or account; InvalidCustomer if it is not valid.

    The names of an installation's customers have no slash, because URLs contain them.
    """
    if not 0 < len(name) <= LONGEST_CUSTOMER:
        raise InvalidCustomer(
            Message(
                "a customer's name must have 1 to {most} characters; got {number}",
                most=LONGEST_CUSTOMER,
                number=len(name),
            )
        )
    if name != name.strip() or not is_printable(name):
        raise InvalidCustomer(
            Message(
                "a customer's name must not contain control characters, or begin or end "
                "with a space; got {name}",
                name=quoted(name),
            )
        )
    if "/" in name and not slashes:
        raise InvalidCustomer(
            Message(
                "a customer's name must have no slash, got {name}; choose another",
                name=quoted(name),
            )
        )
    return name


def with_ending(name: str, ending: str) -> str:
    """The name of a file with this ending, which it may have already."""
    return name if name.lower().endswith(ending) else name + ending


def check_not_nameless(name: str) -> str:
    """The name of a document; InvalidName if it is empty, which differs from None."""
    if not name:
        raise InvalidName(Message("a document's name must not be empty; give one, or leave it out"))
    return name


def check_name(name: str) -> str:
    """The name of a document; InvalidName if it is empty, too long, a path, or not printable."""
    if len(check_not_nameless(name)) > LONGEST_NAME:
        raise InvalidName(
            Message(
                "a document's name must have 1 to {most} characters; got {number}",
                most=LONGEST_NAME,
                number=len(name),
            )
        )
    if "/" in name or "\\" in name or name in (".", ".."):
        raise InvalidName(
            Message(
                "a document's name must not be a path; got {name}; leave out the folders",
                name=quoted(name),
            )
        )
    if not is_printable(name):
        raise InvalidName(
            Message(
                "a document's name must not contain control or undecodable characters; "
                "got {name}; rename it",
                name=quoted(name),
            )
        )
    return name


def check_idempotency_key(key: str) -> str:
    """The key; UsageError if an HTTP header cannot have it."""
    is_visible = key.isascii() and key.isprintable() and key == key.strip()
    if not is_visible or not 0 < len(key) <= LONGEST_KEY:
        raise UsageError(
            Message(
                "an Idempotency-Key must have 1 to {most} printable ASCII characters, "
                "and must not begin or end with a space",
                most=LONGEST_KEY,
            )
        )
    return key


def is_printable(text: str) -> bool:
    """Whether the text has no control, bidi control, undecodable or line-breaking characters."""
    if text.isprintable():  # fast, and true for nearly every allowed name
        return True
    return not any(
        letter in BIDI_CONTROLS or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
        for letter in text
    )


def quoted(text: str) -> str:
    """The text as messages show it: short, quoted, in ASCII."""
    return ascii(text if len(text) <= 60 else text[:57] + "...")


def new_id(now: float, randomness: bytes | None = None) -> str:
    """A ULID in lower case, 26 letters: 48 bits of milliseconds, then 80 random bits.

    Ids sort by time, so new rows are next to each other on disk.
    """
    milliseconds = int(now * 1000)
    random = (randomness or os.urandom(16)).translate(_LETTER_OF_BYTE)
    return _first_letters(milliseconds >> 10) + _PAIRS[milliseconds & 1023] + random.decode()


@lru_cache(8)
def _first_letters(seconds: int) -> str:
    """The first eight letters, which the ids of about one second share."""
    return "".join([_PAIRS[seconds >> shift & 1023] for shift in (30, 20, 10, 0)])


def time_of(id_: str) -> float:
    """When the id was made, to the millisecond."""
    number = 0
    for letter in id_[:10]:
        number = number << 5 | LETTERS.index(letter)
    return (number & (1 << 48) - 1) / 1000
