"""Webhooks and their deliveries: events, delays between attempts, and failing receivers."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, NamedTuple

from fairlead.errors import InvalidWebhook, Message
from fairlead.model.documents import EventKind
from fairlead.model.json import Record, Time

TEST_KIND = "webhook.test"
KINDS = {
    EventKind.DONE: "document.done",
    EventKind.FAILED: "document.failed",
    EventKind.CANCELLED: "document.cancelled",
    EventKind.RETRIED: "document.retried",
    EventKind.PARTS_DONE: "document.parts-done",
    EventKind.BATCH_DONE: "batch.done",
}
"""The kinds of events that webhooks deliver, with the names that receivers see."""
DEFAULT_KINDS = tuple(name for kind, name in KINDS.items() if kind is not EventKind.RETRIED)

MOST_OF_A_CUSTOMER = 20
MOST_CHARACTERS = 500
"""Characters of a receiver's response that are stored."""
LEASE = 60.0
"""Seconds for which an attempt is claimed; longer than any attempt may take."""
LASTING = 86_400.0
"""A webhook whose attempts all failed for so many seconds is disabled."""

DELAYS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
"""Seconds between one attempt and the next: eight attempts in some 28 hours."""
_JITTER = 0.2
_GONE = 410


class Status(StrEnum):
    """The status of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class WebhookRecord(NamedTuple):
    """A webhook as it is stored. The secret signs each delivery, so it is in plain text."""

    id: str
    customer: str | None
    url: str
    kinds: tuple[str, ...]
    secret: str


class Webhook(Record, frozen=True):
    """A URL that gets events, and the kinds of these events.

    Without a customer, it gets the events of all customers.
    """

    id: str
    customer: str | None
    url: str
    kinds: tuple[str, ...]
    enabled: bool
    created_at: Time
    failing_since: Time | None = None
    disabled_because: str | None = None


class WebhookWithSecret(Webhook, frozen=True, kw_only=True):
    """A new webhook; only this response has its secret."""

    secret: str


class Webhooks(Record, frozen=True):
    """Webhooks, oldest first."""

    webhooks: list[Webhook]


class Delivery(Record, frozen=True):
    """One message to a webhook. `code`, `answer` and `error` are those of the last attempt.

    `next_at` is when the next attempt is due; null: there is none.
    """

    id: str
    webhook: str
    kind: str
    document: str | None
    status: Status
    created_at: Time
    attempts: int
    next_at: Time | None
    last_at: Time | None = None
    code: int | None = None
    answer: str | None = None
    error: str | None = None

    COLUMNS: ClassVar = ("id", "webhook", "kind", "document", "status", "created_at", "attempts")


class Deliveries(Record, frozen=True):
    """Deliveries, newest first. `next` is the cursor of the next page."""

    deliveries: list[Delivery]
    next: str | None


class Sending(NamedTuple):
    """One claimed attempt at a delivery. Finishing it with an old fence changes nothing.

    `customer` is empty if the webhook gets the events of all customers.
    """

    id: str
    fence: int
    webhook: str
    customer: str
    url: str
    secret: str
    body: str


class WebhookResponse(NamedTuple):
    """The outcome of an attempt: a status code, or the reason why there is none."""

    code: int | None
    text: str = ""
    error: str | None = None

    @property
    def is_good(self) -> bool:
        return self.code is not None and 200 <= self.code < 300

    @property
    def is_gone(self) -> bool:
        """Whether the receiver asks for no further deliveries."""
        return self.code == _GONE


def check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds, without duplicates; InvalidWebhook for unknown ones."""
    unique = tuple(dict.fromkeys(kinds))
    known = tuple(KINDS.values())
    if not unique or any(kind not in known for kind in unique):
        raise InvalidWebhook(
            Message(
                "kinds of a webhook must be one or more of {known}; got {wanted}",
                known=", ".join(known),
                wanted=repr(list(unique)),
            )
        )
    return unique


def next_delay(attempts: int, jitter: float) -> float | None:
    """Seconds until the next attempt after so many; None: there is no further one.

    `jitter` is a random number from 0 to 1. It prevents that all deliveries reach a recovered
    receiver at once.
    """
    if attempts < 1:
        raise ValueError(f"expected 1 attempt or more; got {attempts}")
    if attempts > len(DELAYS):
        return None
    return DELAYS[attempts - 1] * (1 + _JITTER * jitter)


def is_given_up(failing_since: float | None, *, now: float) -> bool:
    """Whether the webhook of a failing receiver is to be disabled."""
    return failing_since is not None and now - failing_since >= LASTING
