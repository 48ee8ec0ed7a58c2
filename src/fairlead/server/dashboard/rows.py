"""Records as rows and figures of plain values, for pages and for the stream."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Any

from msgspec import Struct

from fairlead.app import Fairlead
from fairlead.app.customers import reset_time
from fairlead.model.capacity import Capacity
from fairlead.model.customers import CustomerRecord, Fairness, Share
from fairlead.model.documents import Document, Tally, full_name
from fairlead.model.states import State
from fairlead.policy.failures import STEP_FAILED
from fairlead.policy.rules import check_policy
from fairlead.server.dashboard.last_hour import LastHour, RunningJob, WaitSummary
from fairlead.server.dashboard.texts import UNREAD


class CustomerTableRow(Struct, frozen=True):
    """A row of a table of customers. Times are seconds since 1970.

    `had_lately`, `share` (in per cent) and `behind` are the figures of its account.
    """

    name: str
    pending: int
    waiting: int
    processing: int
    count: int
    priority: int
    resets_at: float | None
    oldest_at: float | None
    had_lately: float
    share: float
    behind: float
    sent: int
    paused: bool
    blocked: bool


class FairnessFigures:
    """Fairness figures, with the policy and the shares by account."""

    def __init__(self, fairness: Fairness) -> None:
        self.fairness = fairness
        self.policy = check_policy(fairness.policy)
        self.shares = {share.name: share for share in fairness.accounts}


def customer_row(
    fairlead: Fairlead,
    customer: CustomerRecord,
    figures: FairnessFigures,
    last_hour: LastHour,
    now: float,
) -> CustomerTableRow:
    rule = fairlead.customers.rule(customer, figures.policy)
    next_place = fairlead.customers.next_place(customer, figures.policy, now)
    return CustomerTableRow(
        name=customer.name,
        pending=customer.pending,
        waiting=customer.waiting,
        processing=customer.processing,
        count=fairlead.customers.count(customer, figures.policy),
        priority=next_place.priority,
        resets_at=reset_time(rule, customer, now),
        oldest_at=customer.oldest_waiting_at,
        **work_figures(figures.shares.get(customer.settings.account or customer.name)),
        sent=round(last_hour.sent.by_name.get(customer.name, 0)),
        paused=customer.paused,
        blocked=customer.settings.blocked is not None,
    )


def work_figures(share: Share | None) -> dict[str, float]:
    """The figures of an account, rounded so that fading alone seldom changes them."""
    if share is None:
        return {"had_lately": 0.0, "share": 0.0, "behind": 0.0}
    return {
        "had_lately": float(f"{share.had_lately:.2g}"),
        "share": round(100 * share.share, 1),
        "behind": float(f"{share.behind:.2g}"),
    }


SORTS: dict[str, Callable[[CustomerTableRow], Any]] = {
    "name": lambda row: row.name.casefold(),
    "pending": lambda row: -row.pending,
    "processing": lambda row: -row.processing,
    "count": lambda row: row.count,
    "priority": lambda row: -row.priority,
    "resets": lambda row: (row.resets_at is None, -(row.resets_at or 0)),
    "oldest": lambda row: (row.paused, row.oldest_at is None, row.oldest_at or 0),
    "had": lambda row: -row.had_lately,
    "share": lambda row: -row.share,
    "behind": lambda row: -row.behind,
}
"""Sort keys of the table of customers."""


SHOWS: dict[str, Callable[[CustomerTableRow], bool]] = {
    "all": lambda _row: True,
    "waiting": lambda row: row.waiting > 0 and not row.paused,
    "paused": lambda row: row.paused,
}
"""Filters of the table of customers."""


def sorted_rows(
    rows: Iterable[CustomerTableRow], sort: str, *, reverse: bool
) -> list[CustomerTableRow]:
    by_name = sorted(rows, key=SORTS["name"])
    return sorted(by_name, key=SORTS[sort], reverse=reverse)


def filtered_rows(rows: Iterable[CustomerTableRow], text: str, show: str) -> list[CustomerTableRow]:
    text = text.casefold()
    return [row for row in rows if text in row.name.casefold() and SHOWS[show](row)]


def longest_waits(rows: Iterable[CustomerTableRow], most: int = 8) -> list[dict[str, Any]]:
    """The customers whose oldest document waits longest."""
    waiting = [row for row in rows if row.oldest_at is not None and not row.paused]
    longest = nsmallest(most, waiting, key=lambda row: (row.oldest_at or 0.0, row.name))
    names = ("name", "oldest_at", "pending", "priority")
    return [{name: getattr(row, name) for name in names} for row in longest]


def figures(
    rows: Iterable[CustomerTableRow],
    tallies: Iterable[Tally],
    fairness: Fairness,
    last_hour: LastHour,
    waits: Iterable[WaitSummary],
    now: float,
) -> dict[str, Any]:
    by_state: Counter[str] = Counter()
    for tally in tallies:
        by_state[tally.state] += tally.documents
    waiting = [row.oldest_at for row in rows if row.oldest_at is not None and not row.paused]
    overdue = fairness.most_overdue
    numbers: dict[str, Any] = {
        "waiting": by_state[State.WAITING],
        "processing": by_state[State.PROCESSING],
        "failed": by_state[State.FAILED],
        "customers_waiting": len(waiting),
        "oldest_at": min(waiting, default=None),
        "arrived": sum(last_hour.arrived.values()),
        "ended": sum(last_hour.ended.values()),
        "workers": fairness.workers,
        "busy": len(last_hour.running),
        "jain": _rounded(fairness.jain_index, 2),
        "overdue": overdue and overdue.customer,
        "overdue_at": overdue and round(now - overdue.seconds, 1),
        "newcomer_bound": _rounded(fairness.newcomer_bound, 1),
        "start_bound": _rounded(fairness.start_bound, 1),
        "bound_broken": fairness.bound_broken,
        "lane": None if fairness.lane_share is None else round(100 * fairness.lane_share),
    }
    for summary in waits:
        numbers[f"{summary.name}_customers"] = summary.customers
        numbers[f"{summary.name}_documents"] = summary.documents
        numbers[f"{summary.name}_median"] = _rounded(summary.median, 1)
        numbers[f"{summary.name}_high"] = _rounded(summary.high, 1)
    return numbers


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)


def document_row(
    document: Document, *, is_paused: bool = False, cause: str | None = None
) -> dict[str, Any]:
    """A row of a list of documents.

    `is_paused` says whether its customer is paused, `cause` why a step failed; for operators.
    """
    submitted, started = document.submitted_at, document.started_at
    return {
        "id": document.id,
        "customer": document.customer,
        "name": document.name,
        "parent": document.parent,
        "around": full_name(document).removesuffix(document.name),
        "full_name": full_name(document),
        "depth": 0,
        "parts": f"{document.parts_done}/{document.parts}" if document.parts else "",
        "state": document.state.value,
        "paused": is_paused and document.state is State.WAITING,
        "priority": document.priority,
        "count": document.count,
        "at": submitted,
        "wait_from": submitted if document.state is State.WAITING else None,
        "waited": None if started is None else round(max(0.0, started - submitted), 1),
        "error": UNREAD if is_unread(document) else document.error,
        "cause": last_line(cause or ""),
    }


def last_line(cause: str) -> str:
    """The line of a traceback that names the exception."""
    return cause.rstrip().rpartition("\n")[2]


def document_rows(
    fairlead: Fairlead, documents: Sequence[Document], *, for_operator: bool
) -> list[dict[str, Any]]:
    """The rows of a list, with parts below their document."""
    names = {document.customer for document in documents if document.state is State.WAITING}
    paused = {customer.name for customer in fairlead.store.customers(names) if customer.paused}
    failed = [each.id for each in documents if for_operator and each.error == STEP_FAILED]
    causes = fairlead.store.causes(failed) if failed else {}
    return with_parts_below(
        document_row(each, is_paused=each.customer in paused, cause=causes.get(each.id))
        for each in documents
    )


def with_parts_below(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, newest first, but each part below its document if that is one of them.

    The parts of a document are in their order in it.
    """
    by_id = {row["id"]: row for row in rows}
    parts: defaultdict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in by_id.values():
        parts[row["parent"] if row["parent"] in by_id else None].append(row)

    def below(row: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
        yield row | {"depth": depth}
        for part in reversed(parts[row["id"]]):
            yield from below(part, depth + 1)

    return [shown for row in parts[None] for shown in below(row, 0)]


def is_unread(document: Document) -> bool:
    """Whether it is done without any words but with warnings of its reader, as a scan."""
    facts = document.facts
    return document.state is State.DONE and not facts.get("words") and bool(facts.get("warnings"))


def step_rows(capacity: Capacity) -> list[dict[str, Any]]:
    """The use of each step; a step that can run in no engine has no numbers."""
    return [
        {
            "step": step.step,
            "busy": step.busy if step.engines else None,
            "capacity": step.capacity if step.engines else None,
        }
        for step in capacity.steps
    ]


def worker_rows(
    running: Iterable[RunningJob], name_of: Callable[[str], str], most: int
) -> list[dict[str, Any]]:
    by_worker = sorted(running, key=lambda job: (job.worker, job.document))
    return [
        {
            "worker": short_worker(job.worker),
            "document": job.document,
            "name": name_of(job.document),
            "customer": job.customer,
            "since": job.since,
            "pages": f"{job.pages_done}/{job.pages}" if job.pages else "",
        }
        for job in by_worker[:most]
    ]


def short_worker(name: str) -> str:
    """A worker's name without the parts that only make it unique."""
    machine, _, rest = name.partition(":")
    host = machine.rpartition("-")[0] or machine
    pid, _, slot = rest.partition("#")
    return f"{host}:{pid.partition('.')[0]}#{slot}" if rest else name
