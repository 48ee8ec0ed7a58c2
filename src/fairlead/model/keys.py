"""Access keys, `fl_<id>_<secret>`: the secret is shown once, and its SHA-256 is stored."""

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
    """What a key permits."""

    CUSTOMER = "customer"
    SERVICE = "service"
    VIEWER = "viewer"
    WORKER = "worker"
    LINK = "link"
    OPERATOR = "operator"


class KeyOwner(NamedTuple):
    """Whom a key is made for: a customer, or the holder of another role by its name."""

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
    """The owner that was named; none: an operator."""
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
    """Where the key of a link opens the page of its customer."""
    return f"/priority/{key}"


def check_days(days: int) -> int:
    """For how many days a link is valid."""
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"a link is valid for 1 to {MOST_DAYS:,} days; got {days}")
    return days


class Key(Record, frozen=True):
    """A key, without its secret. `name` is that of a service, a viewer or a worker.

    The role `link` is that of a link to a customer's page, which permits nothing else.
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
        """Whether it permits anything: not revoked, and not past its end."""
        return not self.is_revoked and (self.expires_at is None or now < self.expires_at)


class NewLink(Record, frozen=True):
    """A new link to a customer's page; this is the only time that its path is shown."""

    path: str
    id: str
    customer: str
    created_at: Time
    expires_at: Time


class LoginLink(Record, frozen=True):
    """The path of a login link, which opens one session within an hour."""

    path: str


class NewKey(Record, frozen=True):
    """A new key; this is the only time that its secret, `key`, is shown."""

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
    """What one request may bring; and a customer's caps, where it has some."""

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


def without_secrets(text: str) -> str:
    """The text as it may be shown, should somebody have put a key where its id belongs."""
    return _SECRET.sub(r"\1...", text)


def sha256_of(key: str) -> str:
    """The stored hash of a key. It has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(key.encode()).hexdigest()


def matches(key: str, sha256: str) -> bool:
    """Whether this is the key of that SHA-256, compared in constant time."""
    return hmac.compare_digest(sha256_of(key), sha256)
