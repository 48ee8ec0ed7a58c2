"""The live view: computes changes of the dashboard once for all viewers, and sends them.

Without viewers it reads nothing. An update reads only the customers and documents that events
named. The pause after an update is so long that updates use a small part of one core.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from time import thread_time
from typing import Any

from msgspec.structs import asdict

from fairlead.app import Fairlead
from fairlead.errors import FairleadError, UnknownDocument
from fairlead.model.customers import CustomerRecord
from fairlead.model.documents import Document, Event, EventKind, full_name
from fairlead.policy.failures import STEP_FAILED
from fairlead.server.dashboard.last_hour import STEP, LastHour, read_last_hour
from fairlead.server.dashboard.rows import (
    CustomerTableRow,
    FairnessFigures,
    customer_row,
    document_row,
    figures,
    longest_waits,
    step_rows,
    work_figures,
    worker_rows,
)
from fairlead.server.sse import StreamQueue

_log = logging.getLogger(__name__)

LEAST_PAUSE, LONGEST_PAUSE = 0.25, 0.7
"""Seconds between two updates."""
PAUSE_FACTOR = 30
"""The pause after an update, as a multiple of the CPU time of the update."""
SLOW, SLOWEST, SLOW_FACTOR = 2.0, 30.0, 150
"""Seconds after which figures that change without events are read again: SLOW to SLOWEST, and
SLOW_FACTOR times as long as reading them takes, which grows with the waiting customers."""
FADING = 15.0
"""Seconds after which all customers are read again under `fair`: counts fade without events."""
MOST_AT_ONCE = 60
"""The most customers that are read by name; if more have changed, all are read."""
MOST_DOCUMENTS = 100
"""The most changed documents in one message, the newest ones."""
MOST_WORKERS = 64
MOST_RECENT = 240
"""Messages that are stored for viewers that reconnect."""
MOST_QUEUED = 60
OPERATOR_FIGURES = frozenset(["had_lately", "share", "behind"])
"""Figures that depend on other customers, so customers do not see them."""

Ask = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class LiveMessage:
    """One change of the live view."""

    number: int
    figures: dict[str, Any]
    lists: dict[str, Any]
    customers: dict[str, dict[str, Any]]
    documents: list[dict[str, Any]]
    texts: dict[str | None, str] = field(default_factory=dict)

    def text(self, customer: str | None) -> str:
        """The JSON for operators (None) or for one customer; empty: nothing changed for it."""
        if customer not in self.texts:
            self.texts[customer] = self._text(customer)
        return self.texts[customer]

    def _text(self, customer: str | None) -> str:
        rows, documents = self.customers, self.documents
        content: dict[str, Any] = {"figures": self.figures}
        lists = self.lists
        if customer is not None:
            rows = {name: _own(row) for name, row in rows.items() if name == customer}
            documents = [row | {"cause": ""} for row in documents if row["customer"] == customer]
            content, lists = {}, {}
        content["documents"] = documents
        content["customers"] = {name: row for name, row in rows.items() if row}
        content = {name: value for name, value in content.items() if value} | lists
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")) if content else ""


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """A customer's row without the figures that depend on other customers."""
    return {name: value for name, value in row.items() if name not in OPERATOR_FIGURES}


LiveQueue = StreamQueue[LiveMessage]


@dataclass
class Changes:
    """The customers and documents that events named since the last update."""

    everything: bool = True
    customers: set[str] = field(default_factory=set)
    documents: dict[str, None] = field(default_factory=dict)

    @property
    def reads_all_customers(self) -> bool:
        return self.everything or len(self.customers) > MOST_AT_ONCE

    def note(self, events: Sequence[Event]) -> None:
        customers = {event.customer for event in events}
        self.everything = self.everything or None in customers
        if not self.everything:
            self.customers.update(name for name in customers if name is not None)
        for event in events:
            if event.document and event.kind is not EventKind.PROGRESS:
                self.documents.pop(event.document, None)  # so that the newest are last
                self.documents[event.document] = None
        while len(self.documents) > MOST_DOCUMENTS:
            del self.documents[next(iter(self.documents))]


class Snapshot:
    """The content that viewers have. All methods run in threads."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._records: dict[str, CustomerRecord] = {}
        self._rows: dict[str, CustomerTableRow] = {}
        self._figures: dict[str, Any] = {}
        self._lists: dict[str, Any] = {}
        self._fairness_read_at = self._all_read_at = float("-inf")
        self._fairness_pause = SLOW
        self._name_of = lru_cache(4 * MOST_WORKERS)(self._document_name)

    def update(self, changes: Changes, last_hour: LastHour, number: int) -> LiveMessage | None:
        """Read what changed; the message with the differences from the last snapshot, if any."""
        now = self._fairlead.store.now()
        reads_fairness = (
            changes.everything or abs(now - self._fairness_read_at) >= self._fairness_pause
        )
        if reads_fairness:
            self._read_fairness(now)
            self._waits = last_hour.waits_by_class()
            if self._fairness.policy == "fair" and abs(now - self._all_read_at) >= FADING:
                changes.everything = True
        self._read(changes, now)
        customers = {}
        for name in self._outdated(changes, now) if reads_fairness else self._named(changes):
            before = self._rows.get(name)
            row = customer_row(self._fairlead, self._records[name], self._fairness, last_hour, now)
            if row != before:
                self._rows[name] = row
                values = asdict(row)
                customers[name] = values if before is None else _changed(values, asdict(before))
        rows, tallies = self._rows.values(), self._fairlead.store.tallies()
        numbers = figures(rows, tallies, self._fairness.fairness, last_hour, self._waits, now)
        numbers["step"] = int(now) // STEP
        lists = {
            "waits": longest_waits(rows),
            "workers": self.workers(last_hour),
            "steps": self._steps,
        }
        content = (
            _changed(numbers, self._figures),
            _changed(lists, self._lists),
            customers,
            list(self._documents(changes.documents)),
        )
        self._figures, self._lists = numbers, lists
        return LiveMessage(number, *content) if any(content) else None

    def _read_fairness(self, now: float) -> None:
        """Read capacity and fairness figures, and set the pause until they are read again."""
        self._fairness_read_at, began = now, thread_time()
        self._steps = step_rows(self._fairlead.queue.reported_capacity())
        self._fairness = FairnessFigures(self._fairlead.queue.fairness())
        self._fairness_pause = min(max(SLOW, SLOW_FACTOR * (thread_time() - began)), SLOWEST)

    def _read(self, changes: Changes, now: float) -> None:
        store = self._fairlead.store
        if changes.reads_all_customers:
            self._all_read_at = now
            self._records = {customer.name: customer for customer in store.customers()}
        else:
            changed = store.customers(changes.customers) if changes.customers else []
            self._records |= {customer.name: customer for customer in changed}

    def _named(self, changes: Changes) -> Collection[str]:
        return self._records if changes.reads_all_customers else changes.customers

    def _outdated(self, changes: Changes, now: float) -> Collection[str]:
        """The customers that events named, and those whose rows change without events."""
        if self._fairness.policy == "fair":
            return self._records
        by_time = {
            row.name
            for row in self._rows.values()
            if (row.resets_at and row.resets_at < now) or self._has_other_work(row)
        }
        return by_time.union(self._named(changes))

    def _has_other_work(self, row: CustomerTableRow) -> bool:
        account = self._records[row.name].settings.account or row.name
        work = work_figures(self._fairness.shares.get(account))
        return any(getattr(row, name) != value for name, value in work.items())

    def workers(self, last_hour: LastHour) -> list[dict[str, Any]]:
        return worker_rows(list(last_hour.running.values()), self._name_of, MOST_WORKERS)

    def _document_name(self, id_: str) -> str:
        with suppress(UnknownDocument):
            return full_name(self._fairlead.document(id_))
        return ""

    def _documents(self, ids: Collection[str]) -> Iterator[dict[str, Any]]:
        for document in self._with_parents(ids):
            customer = self._rows.get(document.customer)
            is_paused = customer is not None and customer.paused
            cause = None
            if document.error == STEP_FAILED:
                cause = self._fairlead.store.causes([document.id]).get(document.id)
            row = document_row(document, is_paused=is_paused, cause=cause)
            yield row | {"only_update": document.id not in ids}

    def _with_parents(self, ids: Iterable[str]) -> Iterable[Document]:
        """These documents and those around them, whose numbers of parts may have changed.

        The latter do not become rows of a list that lacks them.
        """
        documents: dict[str, Document] = {}
        for id_ in ids:
            next_id: str | None = id_
            with suppress(UnknownDocument):
                while next_id is not None and next_id not in documents:
                    document = documents[next_id] = self._fairlead.document(next_id)
                    next_id = document.parent
        return documents.values()


def _changed(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in new.items() if old.get(name) != value}


class LiveView:
    """Sends changes to viewers. It runs in the event loop, and reads the store in threads."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self.last_hour = LastHour()
        self.epoch = secrets.token_hex(4)
        self.number = 0
        self._queues: set[LiveQueue] = set()
        self._recent: deque[LiveMessage] = deque(maxlen=MOST_RECENT)
        self._changes = Changes()
        self._woken = asyncio.Event()
        self._early_events: list[Event] | None = []
        """Events that arrived before the last hour was read; None: it has been read."""
        self._tasks: list[asyncio.Task[None]] = []
        self._snapshot = Snapshot(fairlead)

    def open(self, ask: Ask, until: int) -> None:
        """Start the tasks. `hear` gets the events after the number `until`."""
        tasks = (self._read_last_hour(ask, until), self._sample(ask), self._run(ask))
        self._tasks = [asyncio.ensure_future(task) for task in tasks]

    def end_all(self) -> None:
        for queue in self._queues:
            queue.close("stopping")

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    @property
    def mark(self) -> str:
        """The position in the stream that a page rendered now is up to date with."""
        return f"{self.epoch}.{self.number}"

    def rows(self, customers: Iterable[CustomerRecord]) -> list[CustomerTableRow]:
        """The current rows of customers; call it in a thread."""
        fairlead, now = self._fairlead, self._fairlead.store.now()
        fairness = FairnessFigures(fairlead.queue.fairness())
        return [
            customer_row(fairlead, record, fairness, self.last_hour, now) for record in customers
        ]

    def workers(self) -> list[dict[str, Any]]:
        return self._snapshot.workers(self.last_hour)

    # --- events and viewers ---

    def hear(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind is EventKind.KEY_REVOKED:
                self._end(key_id=event.data.get("key"))
        if self._early_events is not None:
            self._early_events.extend(events)
        else:
            self.last_hour.hear(events)
        self._changes.note(events)
        self._woken.set()

    @contextmanager
    def subscription(self, customer: str | None, key_id: str, session: str) -> Iterator[LiveQueue]:
        queue: LiveQueue = StreamQueue(MOST_QUEUED, customer, key_id, session)
        self._queues.add(queue)
        self._woken.set()
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    def replay(self, queue: LiveQueue, after: str) -> bool:
        """Queue the messages after a mark again; False: some of them are not stored any more."""
        epoch, _, number = after.partition(".")
        if epoch != self.epoch or not (number.isascii() and number.isdigit()):
            return False
        missed = [message for message in self._recent if message.number > int(number)]
        if len(missed) != self.number - int(number):
            return False
        for message in missed:
            queue.put(message)
        return True

    def end_session(self, session: str) -> None:
        self._end(session=session)

    def _end(self, *, key_id: str | None = None, session: str | None = None) -> None:
        for queue in self._queues:
            if queue.key_id == key_id or queue.session == session:
                queue.close("ended")

    # --- tasks ---

    async def _read_last_hour(self, ask: Ask, until: int) -> None:
        try:
            self.last_hour = await ask(read_last_hour, self._fairlead, until)
        except FairleadError as error:
            _log.warning("fairlead: the dashboard cannot read the last hour: %s", error)
        self.last_hour.hear(self._early_events or [])
        self._early_events = None
        self._changes.everything = True
        self._woken.set()

    async def _sample(self, ask: Ask) -> None:
        while True:
            await asyncio.sleep(STEP - self._fairlead.store.now() % STEP)
            if self._early_events is None:
                with suppress(FairleadError):
                    tallies = await ask(self._fairlead.store.tallies)
                    self.last_hour.sample(self._fairlead.store.now(), tallies)
                    self.last_hour.forget(self._fairlead.store.now())

    async def _run(self, ask: Ask) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SLOW if self._queues else None):
                    await self._woken.wait()
            self._woken.clear()
            if not self._queues or self._early_events is not None:
                continue
            changes, self._changes = self._changes, Changes(everything=False)
            seconds = 0.0
            try:
                message, seconds = await ask(self._timed_update, changes)
            except FairleadError as error:
                _log.warning("fairlead: the dashboard cannot be updated: %s", error)
                self._changes.everything = True
            else:
                self._publish(message)
            await asyncio.sleep(min(LONGEST_PAUSE, max(LEAST_PAUSE, PAUSE_FACTOR * seconds)))

    def _timed_update(self, changes: Changes) -> tuple[LiveMessage | None, float]:
        """An update, and its CPU time in seconds."""
        began = thread_time()
        message = self._snapshot.update(changes, self.last_hour, self.number + 1)
        return message, thread_time() - began

    def _publish(self, message: LiveMessage | None) -> None:
        if message is not None:
            self.number = message.number
            self._recent.append(message)
            for queue in self._queues:
                queue.put(message)
