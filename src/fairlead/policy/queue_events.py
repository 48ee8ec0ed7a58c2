"""What happens to the queue, as records that a store appends and `Queue.fold` reads."""

from __future__ import annotations

from msgspec import Struct

Slot = tuple[int, int]
ChargeValues = tuple[float, float, bool]
"""The fields of a `Charge`."""


class Arrived(Struct, frozen=True, tag="arrived", array_like=True):
    """Documents of a customer wait from now on, in one pipeline.

    `head` is the best of their slots, `oldest` number and submission of the oldest. `were_delayed`
    of them waited for their time until now; `has_ahead`: some are urgent or displaced.
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
    """Documents of a customer were accepted that must not start yet."""

    at: float
    customer: int
    documents: int


class Dropped(Struct, frozen=True, tag="dropped", array_like=True):
    """Documents wait no more, without a start: they were cancelled."""

    at: float
    customer: int
    pipeline: str
    documents: int
    estimates: float
    were_delayed: int = 0


class Ended(Struct, frozen=True, tag="ended", array_like=True):
    """A document is processed no more.

    `seconds` is the work that it took; None: not known; 0: its worker was lost. `payer`, `charge`
    and `inner` are as its start had them. `is_delayed`: it waits for its next attempt.
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
    """A customer as it is set from now on; `account` is a shared one, whose weight it is."""

    at: float
    customer: int
    account: int | None = None
    is_paused: bool = False
    cap: int | None = None
    weight: float = 1.0
    interval: float | None = None


class Reset(Struct, frozen=True, tag="reset", array_like=True):
    """What a customer has had is forgotten."""

    at: float
    customer: int


class Tallied(Struct, frozen=True, tag="tally", array_like=True):
    """So many documents of a priority more, or fewer, are in a state."""

    state: str
    priority: int
    documents: int


class Learned(Struct, frozen=True, tag="cost", array_like=True):
    """How long documents of a cost bucket took, one after the other."""

    shape: str
    by: str
    doublings: int
    seconds: tuple[float, ...]


QueueEvent = Arrived | Deferred | Dropped | Ended | MemberChanged | Reset
StoredEvent = QueueEvent | Tallied | Learned
