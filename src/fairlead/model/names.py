"""What may be the name of a customer, and what an idempotency key. Names are no paths."""

from __future__ import annotations

import unicodedata

from fairlead.errors import InvalidCustomer, InvalidName, Message, UsageError

LONGEST_CUSTOMER = 200
LONGEST_KEY = 255


def check_customer(name: str) -> str:
    """The customer's name; refuses what is empty, too long, or not printable."""
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
                name=shown(name),
            )
        )
    return name


def check_not_nameless(name: str) -> str:
    """The name that a document was given; refuses an empty one, which is not the same as none."""
    if not name:
        raise InvalidName(Message("a document's name must not be empty; give one, or leave it out"))
    return name


def check_idempotency_key(key: str) -> str:
    """The key; refuses what could not travel in a header."""
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
    """Whether the text has no control, undecodable or line-breaking characters."""
    if text.isprintable():  # nearly every name is; it would refuse more than we do
        return True
    return not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text)


def shown(text: str) -> str:
    """The text as a message may show it: short, quoted, and in plain letters."""
    return ascii(text if len(text) <= 60 else text[:57] + "...")
