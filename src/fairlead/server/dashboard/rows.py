"""Records as rows and figures: plain values, the same for pages and streams. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

from fairlead.model.customers import Check, CustomerRecord, Fairness
from fairlead.model.documents import Document, Tally
from fairlead.model.states import State
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.fair import FairRule, Placed
from fairlead.server.dashboard.last_hour import LastHour, Running, Waits


@dataclass(frozen=True, slots=True)
class Row:
    """A customer as tables show it. Times are seconds since 1970."""

    name: str
    pending: int
    waiting: int
    processing: int
    count: int
    priority: int
    resets_at: float | None
    oldest_at: float | None
    share: float
    sent: int
    paused: bool


def customer_row(
    customer: CustomerRecord,
    rule: ClassicPolicy | FairRule,
    following: Check | Placed,
    past: LastHour,
    now: float,
) -> Row:
    """`following` is what its next document would get by its rule."""
    return Row(
        name=customer.name,
        pending=customer.pending,
        waiting=customer.waiting,
        processing=customer.processing,
        count=_count(customer, rule, following, now),
        priority=following.priority,
        resets_at=_resets_at(customer, rule, now),
        oldest_at=customer.oldest_waiting_at,
        share=round(100 * past.work.share(customer.name), 1),
        sent=round(past.sent.by_name.get(customer.name, 0)),
        paused=customer.paused,
    )


def _count(
    customer: CustomerRecord, rule: ClassicPolicy | FairRule, following: Check | Placed, now: float
) -> int:
    """The classic rule's count as it stands; under fair the one the next document would get."""
    if not isinstance(rule, ClassicPolicy):
        return following.count
    if customer.counter is None or rule.is_reset(customer.counter, now=now):
        return 0
    return customer.counter.count


def _resets_at(
    customer: CustomerRecord, rule: ClassicPolicy | FairRule, now: float
) -> float | None:
    """When the customer starts over if nothing else comes; None: it would already."""
    if isinstance(rule, ClassicPolicy):
        if customer.counter is None or rule.is_reset(customer.counter, now=now):
            return None
        return customer.counter.updated_at + rule.reset_interval
    if customer.tags is None or customer.pending:
        return None
    at = customer.tags.submitted_at + rule.reset_interval
    return at if at > now else None


SORTS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: row.name.casefold(),
    "pending": lambda row: -row.pending,
    "processing": lambda row: -row.processing,
    "count": lambda row: row.count,
    "priority": lambda row: -row.priority,
    "resets": lambda row: (row.resets_at is None, -(row.resets_at or 0)),
    "oldest": lambda row: (row.oldest_at is None, row.oldest_at or 0),
    "share": lambda row: -row.share,
}
"""How a table of customers can be sorted, most notable first."""


SHOWS: dict[str, Callable[[Row], bool]] = {
    "all": lambda _row: True,
    "waiting": lambda row: row.waiting > 0,
    "paused": lambda row: row.paused,
}
"""Which customers a table can show."""


def sorted_rows(rows: Iterable[Row], sort: str, *, reverse: bool) -> list[Row]:
    """Rows in an order; those that are equal in it by name."""
    by_name = sorted(rows, key=SORTS["name"])
    return sorted(by_name, key=SORTS[sort], reverse=reverse)


def filtered_rows(rows: Iterable[Row], text: str, show: str) -> list[Row]:
    """Rows whose name has this in it, all of them or those that wait or are paused."""
    part = text.casefold()
    return [row for row in rows if part in row.name.casefold() and SHOWS[show](row)]


def who_waits(rows: Iterable[Row], most: int = 8) -> list[dict[str, Any]]:
    """Customers whose oldest document has waited longest."""
    waiting = [row for row in rows if row.oldest_at is not None]
    found = nsmallest(most, waiting, key=lambda row: (row.oldest_at or 0.0, row.name))
    names = ("name", "oldest_at", "pending", "priority")
    return [{name: getattr(row, name) for name in names} for row in found]


def figures(
    rows: Iterable[Row],
    tallies: Iterable[Tally],
    fairness: Fairness,
    past: LastHour,
    waits: Iterable[Waits],
    now: float,
) -> dict[str, Any]:
    """The numbers of the overview."""
    known = list(tallies)
    every = list(rows)
    waiting = [row.oldest_at for row in every if row.oldest_at is not None]
    overdue = fairness.most_overdue
    shown: dict[str, Any] = {
        "waiting": _number(known, State.WAITING),
        "processing": _number(known, State.PROCESSING),
        "failed": _number(known, State.FAILED),
        "customers_waiting": len(waiting),
        "oldest_at": min(waiting, default=None),
        "arrived": sum(past.arrived.values()),
        "ended": sum(past.ended.values()),
        "workers": fairness.workers,
        "busy": len(past.running),
        "jain": None if fairness.jain_index is None else round(fairness.jain_index, 2),
        "overdue": None if overdue is None else overdue.customer,
        "overdue_at": None if overdue is None else round(now - overdue.seconds, 1),
        "bound_broken": fairness.bound_broken,
        "lane": None if fairness.lane_share is None else round(100 * fairness.lane_share),
    }
    for each in waits:
        shown[f"{each.name}_customers"] = each.customers
        shown[f"{each.name}_documents"] = each.documents
        shown[f"{each.name}_median"] = _tenths(each.median)
        shown[f"{each.name}_high"] = _tenths(each.high)
    return shown


def _number(tallies: Iterable[Tally], state: State) -> int:
    return sum(each.documents for each in tallies if each.state == state)


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def document_row(document: Document) -> dict[str, Any]:
    """A document as tables show it."""
    return {
        "id": document.id,
        "customer": document.customer,
        "name": document.name,
        "state": document.state.value,
        "priority": document.priority,
        "count": document.count,
        "at": document.submitted_at,
        "wait_from": document.submitted_at if document.state is State.WAITING else None,
        "waited": _waited(document),
        "error": document.error,
    }


def _waited(document: Document) -> float | None:
    """How long it waited for its start; None while it waits, or when it never started."""
    if document.started_at is None:
        return None
    return round(max(0.0, document.started_at - document.submitted_at), 1)


def worker_rows(
    running: Iterable[Running], names: Callable[[str], str], most: int
) -> list[dict[str, Any]]:
    """What workers do now, by worker."""
    found = sorted(running, key=lambda each: (each.worker, each.document))[:most]
    return [
        {
            "worker": short_worker(each.worker),
            "document": each.document,
            "name": names(each.document),
            "customer": each.customer,
            "since": each.since,
            "pages": f"{each.pages_done}/{each.pages}" if each.pages else "",
        }
        for each in found
    ]


def short_worker(name: str) -> str:
    """A worker's name without the marks that make it unlike any other."""
    machine, _, rest = name.partition(":")
    host = machine.rpartition("-")[0] or machine
    pid, _, seat = rest.partition("#")
    return f"{host}:{pid.partition('.')[0]}#{seat}" if rest else name
