"""The things that flow through the house: documents, customers, claims, outcomes, events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from fairlead.errors import InvalidSetting
from fairlead.model.states import State
from fairlead.policy.classic import Counter, check_interval, is_number
from fairlead.policy.costs import Sniff
from fairlead.policy.fair import Tags
from fairlead.policy.levels import check_thresholds

_LARGEST_CAP = 10**12
_WEIGHTS = (0.001, 1000.0)
_RATES = (0.001, 1e6)


class NewDocument(NamedTuple):
    """A document that asks to be accepted. Its bytes are safely on disk; short ones come along."""

    id: str
    name: str
    size: int
    sha256: str
    urgent: bool = False
    look: Sniff = Sniff()
    password: str | None = None
    content: bytes | None = None


class Submission(NamedTuple):
    """Documents of one customer that are accepted or refused together.

    With an idempotency key, `fingerprint` tells one body from another.
    """

    customer: str
    documents: tuple[NewDocument, ...]
    strict: bool = False
    key: str | None = None
    fingerprint: str = ""


class Document(NamedTuple):
    """A document as the store knows it. Times are seconds since 1970.

    `parent` is the id of the document that it was a part of, `depth` how far it is from the one
    that was submitted. `estimate` is how many seconds of work were expected when it was accepted,
    `seconds` how many it took, in the attempt that ended it. A text that has a hash and no key is
    in the store itself.
    """

    id: str
    customer: str
    name: str
    size: int
    sha256: str
    kind: str | None
    state: State
    priority: int
    count: int  # type: ignore[assignment]  # nobody misses the method of tuples
    policy: str
    urgent: bool
    submitted_at: float
    started_at: float | None = None
    finished_at: float | None = None
    attempts: int = 0
    retry_at: float | None = None
    error: str | None = None
    detail: str | None = None
    facts: Mapping[str, Any] = MappingProxyType({})
    text_key: str | None = None
    text_sha256: str | None = None
    seconds: float | None = None
    estimate: float = 0.0
    markdown_key: str | None = None
    markdown_sha256: str | None = None
    parent: str | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class CustomerSettings:
    """What an operator may set for one customer. None: the installation's own setting.

    The weight is that of the customer's account: all customers of one account share it.
    """

    weight: float = 1.0
    account: str | None = None
    processing_cap: int | None = None
    pending_cap: int | None = None
    reset_interval: float | None = None
    thresholds: tuple[int, ...] | None = None
    requests_a_second: float | None = None
    requests_burst: int | None = None
    bytes_a_day: int | None = None

    def __post_init__(self) -> None:
        least, most = _WEIGHTS
        if not (is_number(self.weight) and least <= self.weight <= most):
            raise InvalidSetting(
                f"weight must be a number from {least:g} to {most:g}; got {self.weight!r}"
            )
        _check_cap("processing_cap", self.processing_cap)
        _check_cap("pending_cap", self.pending_cap)
        _check_cap("requests_burst", self.requests_burst)
        _check_cap("bytes_a_day", self.bytes_a_day)
        _check_rate(self.requests_a_second)
        if self.reset_interval is not None:
            check_interval(self.reset_interval)
        if self.thresholds is not None:
            check_thresholds(self.thresholds)

    def changed(self, changes: Mapping[str, Any]) -> CustomerSettings:
        """These settings with some others in their place; None: as for everybody."""
        names = [each.name for each in fields(self)]
        for name in changes:
            if name not in names:
                raise InvalidSetting(f"a customer has the settings {', '.join(names)}; got {name}")
        given = {name: value for name, value in changes.items() if name != "weight"}
        weight = changes.get("weight", self.weight)
        return replace(self, weight=1.0 if weight is None else weight, **given)


def _check_cap(name: str, cap: int | None) -> None:
    if cap is not None and not (type(cap) is int and 1 <= cap <= _LARGEST_CAP):
        raise InvalidSetting(
            f"{name} must be a whole number from 1 to {_LARGEST_CAP:,}, or none; got {cap!r}"
        )


def _check_rate(rate: float | None) -> None:
    least, most = _RATES
    if rate is not None and not (is_number(rate) and least <= rate <= most):
        raise InvalidSetting(
            f"requests_a_second must be a number from {least:g} to {most:,.0f}, or none; "
            f"got {rate!r}"
        )


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer with its records and its true numbers of documents.

    `counter` is the classic rule's record, `tags` that of the fair rule, kept for its account.
    """

    name: str
    created_at: float
    counter: Counter | None
    paused: bool
    settings: CustomerSettings
    waiting: int
    processing: int
    last_started_at: float | None
    oldest_waiting_at: float | None
    tags: Tags | None = None

    @property
    def pending(self) -> int:
        """Documents submitted and not yet at an end."""
        return self.waiting + self.processing


class Totals(NamedTuple):
    """How much there is, over all customers."""

    waiting: int
    processing: int
    customers: int


class Place(NamedTuple):
    """What goes before a waiting document, as things stand.

    `tag` is the sort key of the place, `seconds` the estimated work of all that goes before,
    `own_seconds` the part of it that is its own customer's, `most` the others with most documents
    in it.
    """

    own_documents: int
    other_documents: int
    other_customers: int
    tag: float = 0.0
    seconds: float = 0.0
    own_seconds: float = 0.0
    most: tuple[tuple[str, int], ...] = ()


class Claim(NamedTuple):
    """One attempt at a document, held by one worker until its lease ends.

    The fence is the number of the attempt: finishing with an old one changes nothing.
    `broke_before`: an earlier attempt broke, other than by the end of its whole worker.
    `suspect`: an earlier attempt broke, or was lost with its worker; it is to be read alone.
    `content`: the document itself, where the store keeps it; else it is a file.
    """

    id: str
    fence: int
    worker: str
    customer: str
    name: str
    size: int
    sha256: str
    priority: int
    submitted_at: float
    started_at: float
    attempts: int
    depth: int = 0
    password: str | None = None
    broke_before: bool = False
    suspect: bool = False
    content: bytes | None = None


class Progress(NamedTuple):
    """How far the work on a claim is: pages read, of so many."""

    claim: Claim
    pages_done: int
    pages: int


class ShortTexts(NamedTuple):
    """A document's texts, encoded, where they are short enough for the store to keep them."""

    text: bytes
    markdown: bytes | None = None


class Done(NamedTuple):
    """The document was read. Its texts come along, or are on disk under their keys.

    Without a `markdown_sha256`, the text is its own Markdown.
    """

    kind: str
    facts: Mapping[str, Any]
    text_key: str | None
    text_sha256: str
    seconds: float | None = None
    markdown_key: str | None = None
    markdown_sha256: str | None = None
    parts: tuple[NewDocument, ...] = ()
    short: ShortTexts | None = None


class Failed(NamedTuple):
    """The document cannot be read; trying again would not help."""

    code: str
    detail: str
    kind: str | None = None
    seconds: float | None = None


class Broken(NamedTuple):
    """The attempt broke (a crash, a limit): try again while attempts are left."""

    code: str
    detail: str
    seconds: float | None = None


Outcome = Done | Failed | Broken


class Switched(NamedTuple):
    """What a switch of the policy did: how many documents were placed anew, of how many customers.

    `moved` of them got another priority.
    """

    before: str
    after: str
    documents: int
    customers: int
    moved: int


class Saved(StrEnum):
    """What became of an outcome."""

    SAVED = "saved"
    STALE = "stale"


class EventKind(StrEnum):
    """One name for each thing that can happen."""

    __hash__ = str.__hash__  # an enumeration's own is Python, and events are counted by kind

    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    PROGRESS = "progress"
    DONE = "done"
    FAILED = "failed"
    REQUEUED = "retried"
    RELEASED = "released"
    RESCUED = "rescued"
    CANCELLED = "cancelled"
    RETRIED = "again"
    DELETED = "deleted"
    CUSTOMER_ADDED = "customer-added"
    CUSTOMER_SET = "customer-set"
    CUSTOMER_PAUSED = "customer-paused"
    CUSTOMER_RESUMED = "customer-resumed"
    CUSTOMER_RESET = "customer-reset"
    KEY_ADDED = "key-added"
    KEY_REVOKED = "key-revoked"
    POLICY_SWITCHED = "policy-switched"
    BOUND_BROKEN = "bound-broken"
    WEBHOOK_ADDED = "webhook-added"
    WEBHOOK_SET = "webhook-set"
    WEBHOOK_REMOVED = "webhook-removed"
    WEBHOOK_DISABLED = "webhook-disabled"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the append-only record. No customer: it is about the whole installation.

    `actor` is who decided it: the id of a key, or a word; None where nobody did.
    """

    seq: int
    at: float
    kind: EventKind
    customer: str | None
    document: str | None
    data: Mapping[str, Any]
    actor: str | None = None
