"""Webhooks: who is told of what, how often it is tried, and when a receiver is given up."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from fairlead.errors import InvalidWebhook, Message
from fairlead.model.documents import EventKind
from fairlead.model.json import Record, Time

TEST_KIND = "webhook.test"
KINDS = {
    EventKind.DONE: "document.done",
    EventKind.FAILED: "document.failed",
    EventKind.CANCELLED: "document.cancelled",
    EventKind.RETRIED: "document.again",
    EventKind.BATCH_DONE: "batch.done",
}
"""The events that a webhook may ask for, by the names that receivers see."""
DEFAULT_KINDS = ("document.done", "document.failed", "document.cancelled", "batch.done")

MOST_OF_A_CUSTOMER = 20
MOST_CHARACTERS = 500
"""Of a receiver's answer, what is kept."""
LEASE = 60.0
"""Seconds for which an attempt is held; longer than any attempt may take."""
LASTING = 86_400.0
"""Seconds of nothing but failure after which a receiver is given up."""

DELAYS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
"""Seconds between one attempt and the next: eight attempts in some 28 hours."""
_JITTER = 0.2
_GONE = 410


class Status(StrEnum):
    """Where a delivery is."""

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
    """Where somebody is told. `kinds` are the names of the events it asked for.

    No customer: it is told of the documents of all customers.
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
    """A new webhook; the secret is shown this once."""

    secret: str


class Webhooks(Record, frozen=True):
    """Webhooks, oldest first."""

    webhooks: list[Webhook]


class Delivery(Record, frozen=True):
    """One thing to tell one receiver. `code`, `answer` and `error` are of the last attempt.

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


class Deliveries(Record, frozen=True):
    """Deliveries, newest first. `next` is the cursor of the next page."""

    deliveries: list[Delivery]
    next: str | None


class Sending(NamedTuple):
    """One attempt at a delivery: all that is needed to make it. An old fence changes nothing.

    `customer` is empty where the webhook is told of all customers.
    """

    id: str
    fence: int
    webhook: str
    customer: str
    url: str
    secret: str
    body: str


class WebhookResponse(NamedTuple):
    """What an attempt came to: a status code, or the reason why there is none."""

    code: int | None
    text: str = ""
    error: str | None = None

    @property
    def is_good(self) -> bool:
        return self.code is not None and 200 <= self.code < 300

    @property
    def is_gone(self) -> bool:
        """Whether the receiver asks never to be told again."""
        return self.code == _GONE


def check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds, each once; refuses names that are none."""
    wanted = tuple(dict.fromkeys(kinds))
    known = tuple(KINDS.values())
    if not wanted or any(each not in known for each in wanted):
        raise InvalidWebhook(
            Message(
                "kinds of a webhook must be one or more of {known}; got {wanted}",
                known=", ".join(known),
                wanted=repr(list(wanted)),
            )
        )
    return wanted


def next_delay(attempts: int, jitter: float) -> float | None:
    """Seconds until the next attempt after so many; None: no further one.

    `jitter` is a number from 0 to 1 by lot: it keeps receivers that came back from being met by
    all deliveries at once.
    """
    if attempts < 1:
        raise ValueError(f"expected 1 attempt or more; got {attempts}")
    if attempts > len(DELAYS):
        return None
    return DELAYS[attempts - 1] * (1 + _JITTER * jitter)


def is_given_up(failing_since: float | None, *, now: float) -> bool:
    """Whether a receiver that let a delivery fail for good has failed long enough."""
    return failing_since is not None and now - failing_since >= LASTING
