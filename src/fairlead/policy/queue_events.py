"""Events of the queue: a store appends them, `Queue.fold` applies them."""

from __future__ import annotations

from msgspec import Struct

Slot = tuple[int, int]
ChargeValues = tuple[float, float, bool]
"""The fields of a `Charge`."""


class Arrived(Struct, frozen=True, tag="arrived", array_like=True):
    """Documents of a customer entered the queue of one pipeline.

    `head` is the best of their slots, `oldest` the number and submission time of the oldest.
    `were_delayed` of them were not due before; `has_ahead`: some are urgent or displaced.
    """

    at: float
    customer: int
    pipeline: str
    documents: int
    estimates: float
    head: Slot
    oldest: tuple[int, float]
    were_delayed: int = 0
    has_ahead: bool = False


class Deferred(Struct, frozen=True, tag="deferred", array_like=True):
    """Documents of a customer were accepted that are not due yet."""

    at: float
    customer: int
    documents: int


class Dropped(Struct, frozen=True, tag="dropped", array_like=True):
    """Waiting documents left the queue without a start: they were cancelled."""

    at: float
    customer: int
    pipeline: str
    documents: int
    estimates: float
    were_delayed: int = 0


class Ended(Struct, frozen=True, tag="ended", array_like=True):
    """An attempt at a document ended.

    `seconds` is the work that it took; None: not known; 0: its worker was lost. `payer`, `charge`
    and `inner` are those of its `Start`. `is_delayed`: the document waits for its next attempt.
    """

    at: float
    customer: int
    pipeline: str
    seconds: float | None
    payer: int
    charge: ChargeValues | None = None
    inner: ChargeValues | None = None
    is_delayed: bool = False


class MemberChanged(Struct, frozen=True, tag="member", array_like=True):
    """The new settings of a customer; with a shared `account`, `weight` is the account's."""

    at: float
    customer: int
    account: int | None = None
    is_paused: bool = False
    cap: int | None = None
    weight: float = 1.0
    interval: float | None = None


class Reset(Struct, frozen=True, tag="reset", array_like=True):
    """The recent work of a customer was forgotten."""

    at: float
    customer: int


class Served(Struct, frozen=True, tag="served", array_like=True):
    """Workers serve a queue that none served before."""

    at: float
    pipeline: str


class Tallied(Struct, frozen=True, tag="tally", array_like=True):
    """The number of documents of a priority in a state changed by `documents`."""

    state: str
    priority: int
    documents: int


class Learned(Struct, frozen=True, tag="cost", array_like=True):
    """Processing times of documents of a cost bucket, in order."""

    shape: str
    by: str
    doublings: int
    seconds: tuple[float, ...]


MemberEvent = Arrived | Deferred | Dropped | Ended | MemberChanged | Reset
"""What happened to a member of the queue."""
QueueEvent = MemberEvent | Served
StoredEvent = QueueEvent | Tallied | Learned
