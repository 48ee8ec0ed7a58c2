"""What may be the name of a document or of a customer. Names are shown, never used as paths."""

from __future__ import annotations

import unicodedata

from fairlead.errors import InvalidCustomer, InvalidName, Words

LONGEST_NAME = 255
LONGEST_CUSTOMER = 200


def check_name(name: str) -> str:
    """The document's name; refuses what is empty, too long, a path, or not printable."""
    if not 0 < len(name) <= LONGEST_NAME:
        raise InvalidName(
            Words(
                "a document's name must have 1 to {most} characters, this one has {number}; give a "
                "shorter one",
                most=LONGEST_NAME,
                number=len(name),
            )
        )
    if "/" in name or "\\" in name or name in (".", ".."):
        raise InvalidName(
            Words(
                "a document's name must not be a path, got {name}; leave out the folders",
                name=_shown(name),
            )
        )
    if not _is_printable(name):
        raise InvalidName(
            Words(
                "a document's name must have no control or undecodable characters, got {name}; "
                "rename it",
                name=_shown(name),
            )
        )
    return name


def check_customer(name: str) -> str:
    """The customer's name; refuses what is empty, too long, or not printable."""
    if not 0 < len(name) <= LONGEST_CUSTOMER:
        raise InvalidCustomer(
            Words(
                "a customer's name must have 1 to {most} characters, this one has {number}",
                most=LONGEST_CUSTOMER,
                number=len(name),
            )
        )
    if name != name.strip() or not _is_printable(name):
        raise InvalidCustomer(
            Words(
                "a customer's name must have no control characters and no space at its ends, got "
                "{name}",
                name=_shown(name),
            )
        )
    return name


def _is_printable(text: str) -> bool:
    return not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text)


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 60 else text[:57] + "...")
