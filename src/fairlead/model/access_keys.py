"""Who may come in: keys, and what they open."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.model.json import Record, Time


class Key(Record, frozen=True):
    """A key, without its secret. No customer: an operator's."""

    id: str
    customer: str | None
    operator: bool
    created_at: Time
    revoked_at: Time | None = None

    @property
    def is_revoked(self) -> bool:
        """Whether it opens nothing any more."""
        return self.revoked_at is not None


class NewKey(Record, frozen=True):
    """A new key; this is the only time that its secret, `key`, is shown."""

    key: str
    id: str
    customer: str | None
    operator: bool
    created_at: Time
    revoked_at: Time | None = None


class Keys(Record, frozen=True):
    """Keys, oldest first."""

    keys: list[Key]


class StoredKey(NamedTuple):
    """A key, and the SHA-256 of its secret."""

    key: Key
    sha256: str


class Limits(Record, frozen=True):
    """What one request may bring."""

    max_document_bytes: int
    max_upload_bytes: int
    max_upload_files: int


class Me(Record, frozen=True):
    """Whose a key is. No customer: an operator's."""

    key: str
    customer: str | None
    limits: Limits

    @property
    def is_operator(self) -> bool:
        """Whether the key opens everything."""
        return self.customer is None


class Tally(NamedTuple):
    """How many documents of one priority are in one state."""

    state: str
    priority: int
    documents: int
