"""Who may come in: keys as the store knows them."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """A key, of which only the SHA-256 is known. No customer: an operator's."""

    id: str
    customer: str | None
    sha256: str
    created_at: float
    revoked_at: float | None = None

    @property
    def is_operator(self) -> bool:
        """Whether it opens everything."""
        return self.customer is None

    @property
    def is_revoked(self) -> bool:
        """Whether it opens nothing any more."""
        return self.revoked_at is not None


class Tally(NamedTuple):
    """How many documents of one priority are in one state."""

    state: str
    priority: int
    documents: int
