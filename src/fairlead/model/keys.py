"""API keys, `fl_<id>_<secret>`: shown once, and stored as a SHA-256."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from enum import StrEnum
from typing import NamedTuple

from fairlead.errors import UsageError
from fairlead.model.json import Record, Time
from fairlead.model.names import LETTERS, check_customer
from fairlead.model.submissions import check_reference

LINK_DAYS = 30
MOST_DAYS = 3650
_SHAPE = re.compile(r"fl_([0-9a-z]{12})_([0-9A-Za-z_-]{43})")
_SECRET = re.compile(r"(fl_[0-9a-z]{12}_)[0-9A-Za-z_-]+")


class Role(StrEnum):
    """The roles of keys, which decide what they permit."""

    CUSTOMER = "customer"
    SERVICE = "service"
    VIEWER = "viewer"
    WORKER = "worker"
    LINK = "link"
    OPERATOR = "operator"


class KeyOwner(NamedTuple):
    """The owner of a key: a customer, or the holder of another role by its name."""

    role: Role
    customer: str | None = None
    name: str | None = None


def key_owner(
    customer: str | None = None,
    *,
    service: str | None = None,
    viewer: str | None = None,
    worker: str | None = None,
) -> KeyOwner:
    """The owner that the arguments name; an operator if they name none."""
    others = {Role.SERVICE: service, Role.VIEWER: viewer, Role.WORKER: worker}
    named = {role: name for role, name in others.items() if name is not None}
    if len(named) + (customer is not None) > 1:
        raise UsageError("a key has one owner: name a customer, a service, a viewer or a worker")
    for role, name in named.items():
        return KeyOwner(role, name=check_reference(name, f"the name of a {role}"))
    if customer is None:
        return KeyOwner(Role.OPERATOR)
    return KeyOwner(Role.CUSTOMER, check_customer(customer))


def link_path(key: str) -> str:
    """The path of a customer's page with the key of a link."""
    return f"/priority/{key}"


def check_days(days: int) -> int:
    """The days for which a link is valid; UsageError if they are too few or too many."""
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"a link is valid for 1 to {MOST_DAYS:,} days; got {days}")
    return days


class Key(Record, frozen=True):
    """A key, without its secret. `name` is that of a service, a viewer or a worker.

    A key of the role `link` opens the page of a customer, and permits nothing else.
    """

    id: str
    customer: str | None
    operator: bool
    created_at: Time
    revoked_at: Time | None = None
    role: Role = Role.CUSTOMER
    name: str | None = None
    expires_at: Time | None = None

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at is not None

    def is_valid(self, now: float) -> bool:
        """Whether it is neither revoked nor expired."""
        return not self.is_revoked and (self.expires_at is None or now < self.expires_at)


class NewLink(Record, frozen=True):
    """A new link to a customer's page; only this response has its path."""

    path: str
    id: str
    customer: str
    created_at: Time
    expires_at: Time


class LoginLink(Record, frozen=True):
    """The path of a login link, which opens one session within an hour."""

    path: str


class NewKey(Record, frozen=True):
    """A new key; only this response has its secret, `key`."""

    key: str
    id: str
    customer: str | None
    operator: bool
    created_at: Time
    revoked_at: Time | None = None
    role: Role = Role.CUSTOMER
    name: str | None = None
    expires_at: Time | None = None


class Keys(Record, frozen=True):
    """Keys, oldest first."""

    keys: list[Key]


class StoredKey(NamedTuple):
    """A key, and the SHA-256 of its secret."""

    key: Key
    sha256: str


class Limits(Record, frozen=True):
    """The limits of one request, and the caps of a customer, if it has any."""

    max_document_bytes: int
    max_upload_bytes: int
    max_upload_files: int
    pending_cap: int | None = None
    processing_cap: int | None = None
    bytes_a_day: int | None = None
    requests_a_second: float | None = None


def new_key() -> tuple[str, str]:
    """A new key and its id."""
    id_ = "".join(secrets.choice(LETTERS) for _ in range(12))
    return f"fl_{id_}_{secrets.token_urlsafe(32)}", id_


def id_of(key: str) -> str | None:
    """The id in a key; None: it is not a key."""
    match = _SHAPE.fullmatch(key)
    return match[1] if match else None


def mask_keys(text: str) -> str:
    """The text with the secrets of keys removed, for errors about a key in the wrong place."""
    return _SECRET.sub(r"\1...", text)


def sha256_of(key: str) -> str:
    """The stored hash of a key. A key has 256 random bits, so a slow hash is not needed."""
    return hashlib.sha256(key.encode()).hexdigest()


def matches(key: str, sha256: str) -> bool:
    """Whether the key has this SHA-256, compared in constant time."""
    return hmac.compare_digest(sha256_of(key), sha256)
