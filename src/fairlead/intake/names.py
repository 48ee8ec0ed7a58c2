"""Rules for the names of documents and customers. Names are shown, never used as paths."""

from __future__ import annotations

from fairlead.errors import InvalidCustomer, InvalidName, Message
from fairlead.model import names
from fairlead.model.names import LONGEST_CUSTOMER, check_not_nameless, is_printable, shown

__all__ = ["LONGEST_CUSTOMER", "LONGEST_NAME", "check_customer", "check_name"]

LONGEST_NAME = 255


def check_customer(name: str) -> str:
    """The name of a customer or an account; it has no slash, because addresses contain it."""
    if "/" in names.check_customer(name):
        raise InvalidCustomer(
            Message(
                "a customer's name must have no slash, got {name}; choose another", name=shown(name)
            )
        )
    return name


def check_name(name: str) -> str:
    """The document's name; refuses what is empty, too long, a path, or not printable."""
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
                name=shown(name),
            )
        )
    if not is_printable(name):
        raise InvalidName(
            Message(
                "a document's name must not contain control or undecodable characters; "
                "got {name}; rename it",
                name=shown(name),
            )
        )
    return name
