"""Usage per customer and day, and the standing of a customer."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import add
from typing import Annotated, NamedTuple

from msgspec import Meta

from fairlead.errors import UsageError
from fairlead.model.json import Record, Time
from fairlead.model.keys import Limits

DAY = 86_400
Date = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class UsageRow(NamedTuple):
    """The usage of a customer on a day by one transaction, or by several."""

    customer: int
    day: int
    documents: int = 0
    pages: int = 0
    ocr_pages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    failures: int = 0

    def plus(self, other: UsageRow) -> UsageRow:
        """The sum of two rows of one customer and day."""
        return UsageRow(self.customer, self.day, *map(add, self[2:], other[2:]))


class Usage(Record, frozen=True):
    """The usage of a customer on a day, UTC. `customer` is null if it was deleted.

    Documents and bytes count at acceptance; pages, seconds and failures when processing ends.
    """

    customer: str | None
    day: Date
    documents: int = 0
    pages: int = 0
    ocr_pages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    failures: int = 0


class UsageList(Record, frozen=True):
    """Usage by day, oldest first, then by customer."""

    usage: list[Usage]


class CustomerStanding(Record, frozen=True, kw_only=True):
    """The standing of a customer: its count, its next priority, and its pending documents.

    `count` is that of its last document, or 0 after a reset; under fair, that of the next one.
    `resets_at` is when the count returns to 0, if no document arrives; null: it is 0. All pending
    documents should have ended by `expected_end`; null: there are none, or it is not known before
    the customer is resumed or somebody serves them: `waits_for` is "resume" or "worker".
    `usage` is that of today. `blocked` is the reason why new documents are refused; null: they are
    accepted.
    """

    customer: str
    count: int
    next_priority: int
    resets_at: Time | None
    pending: int
    processing: int
    expected_end: Time | None
    limits: Limits
    usage: Usage
    blocked: str | None = None
    waits_for: str | None = None


class Me(Record, frozen=True):
    """The owner of a key, and the limits of one request. `name` is the owner's.

    For a customer's key, the fields of `CustomerStanding` follow; other keys lack them.
    """

    role: str
    name: str
    key: str
    limits: Limits
    customer: str | None = None
    count: int | None = None
    next_priority: int | None = None
    resets_at: Time | None = None
    pending: int | None = None
    processing: int | None = None
    expected_end: Time | None = None
    usage: Usage | None = None
    blocked: str | None = None
    waits_for: str | None = None

    @property
    def is_operator(self) -> bool:
        return self.role == "operator"


def day_name(day: int) -> str:
    """The date of a day since 1970."""
    return datetime.fromtimestamp(day * DAY, UTC).date().isoformat()


def day_number(name: str) -> int:
    """The day since 1970 of a date such as 2026-01-31."""
    try:
        return int(datetime.strptime(name, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) // DAY
    except ValueError:
        raise UsageError(f"a day must be a date such as 2026-01-31; got {name[:20]!a}") from None
