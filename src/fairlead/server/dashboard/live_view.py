"""What all viewers see, worked out once for all of them and sent as what has changed.

Nothing is looked up while nobody watches. A look reads only the customers and documents that events
named; after it, the board rests so long that looking takes a small part of one core at most.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from time import monotonic, thread_time
from typing import Any

from fairlead.app import Fairlead
from fairlead.errors import FairleadError, UnknownDocument
from fairlead.model.customers import CustomerRecord, Fairness
from fairlead.model.documents import Event, EventKind
from fairlead.policy.fair import Clock
from fairlead.policy.rules import PolicyName
from fairlead.server.dashboard import last_hour
from fairlead.server.dashboard.last_hour import CHANGES, STEP, LastHour, Waits
from fairlead.server.dashboard.rows import (
    Row,
    customer_row,
    document_row,
    figures,
    who_waits,
    worker_rows,
)

_log = logging.getLogger(__name__)

TICK = 0.25
"""Seconds between two looks at least."""
SLOW = 2.0
"""Seconds after which figures that change by themselves are looked at again."""
REST = 30
"""How many times as long as a look worked the board rests after it; LONGEST_REST at most."""
LONGEST_REST = 0.7
MOST_AT_ONCE = 60
"""Customers that are looked up one by one; of more, all are read together."""
MOST_DOCUMENTS = 100
"""Changed documents that are told of in one message; the newest ones."""
MOST_WORKERS = 64
KEPT = 240
"""Messages kept for who comes back after a short loss."""
MOST_QUEUED = 60
MOST_REPLAYED = 60_000
PORTION = 1000
_FIELDS = tuple(each.name for each in fields(Row))

Ask = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class LiveMessage:
    """One change of the board. `text` gives it as a viewer may see it; empty: nothing for it."""

    number: int
    figures: dict[str, Any]
    lists: dict[str, Any]
    customers: dict[str, dict[str, Any]]
    documents: list[dict[str, Any]]
    texts: dict[str | None, str] = field(default_factory=dict)

    def text(self, customer: str | None) -> str:
        """As JSON; of one customer, only what is its own."""
        if customer not in self.texts:
            self.texts[customer] = self._text(customer)
        return self.texts[customer]

    def _text(self, customer: str | None) -> str:
        rows, documents = self.customers, self.documents
        shown: dict[str, Any] = {"figures": self.figures} | self.lists
        if customer is not None:
            rows = {name: row for name, row in rows.items() if name == customer}
            documents = [each for each in documents if each["customer"] == customer]
            shown = {}
        shown |= {"customers": rows, "documents": documents}
        told = {name: value for name, value in shown.items() if value}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")) if told else ""


class Viewer:
    """The queue of one stream. No customer: an operator's."""

    def __init__(self, customer: str | None, key_id: str, session: str) -> None:
        self.customer = customer
        self.key_id = key_id
        self.session = session
        self.end: str | None = None
        self._queue: deque[LiveMessage] = deque()
        self._bell = asyncio.Event()

    def put(self, message: LiveMessage) -> None:
        """Queue a message; a viewer that let too many wait begins anew."""
        self._queue.append(message)
        if len(self._queue) > MOST_QUEUED:
            self.close("too-slow")
        self._bell.set()

    def close(self, reason: str) -> None:
        """End the stream."""
        self.end = self.end or reason
        self._bell.set()

    async def take(self, seconds: float) -> list[LiveMessage]:
        """What has come; nothing after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        self._bell.clear()
        found = list(self._queue)
        self._queue.clear()
        return found


@dataclass
class _Changed:
    """What events named since the last look."""

    everything: bool = True
    customers: set[str] = field(default_factory=set)
    documents: dict[str, None] = field(default_factory=dict)

    def note(self, events: Sequence[Event]) -> None:
        """Keep what the events name; of the documents, those named last."""
        told = [each for each in events if each.kind is not EventKind.PROGRESS]
        customers = {each.customer for each in events}
        self.everything = self.everything or None in customers
        if not self.everything:
            self.customers.update(each for each in customers if each is not None)
        for document in [each.document for each in told if each.document][-MOST_DOCUMENTS:]:
            self.documents.pop(document, None)
            self.documents[document] = None
        while len(self.documents) > MOST_DOCUMENTS:
            del self.documents[next(iter(self.documents))]


class LiveView:
    """Keeps what is shown. `hear` and all about viewers run in the event loop."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self.past = LastHour()
        self.epoch = secrets.token_hex(4)
        self.number = 0
        self._viewers: set[Viewer] = set()
        self._recent: deque[LiveMessage] = deque(maxlen=KEPT)
        self._changed = _Changed()
        self._bell = asyncio.Event()
        self._held: list[Event] | None = []
        self._tasks: list[asyncio.Task[None]] = []
        self._records: dict[str, CustomerRecord] = {}
        self._rows: dict[str, Row] = {}
        self._figures: dict[str, Any] = {}
        self._lists: dict[str, Any] = {}
        self._rules: tuple[PolicyName, Clock] | None = None
        self._fairness: Fairness | None = None
        self._waits: list[Waits] = []
        self._slow_at = 0.0
        self._name_of = lru_cache(4 * MOST_WORKERS)(partial(_name, fairlead))

    # --- its life ---

    def open(self, ask: Ask, until: int) -> None:
        """Begin, in the event loop; `until` is the last event that `hear` will not be told of."""
        self._tasks = [
            asyncio.ensure_future(each)
            for each in (self._remember(ask, until), self._sample(ask), self._run(ask))
        ]

    def end_all(self) -> None:
        """Let nobody watch any longer."""
        for viewer in self._viewers:
            viewer.close("stopping")

    def close(self) -> None:
        """Stop."""
        for task in self._tasks:
            task.cancel()

    async def _remember(self, ask: Ask, until: int) -> None:
        """Learn the last hour from the store, then what was heard meanwhile."""
        try:
            learnt = await ask(remembered, self._fairlead, until)
        except FairleadError as error:
            _log.warning("fairlead: the last hour cannot be read: %s", error)
            learnt = self.past
        self.past = learnt
        held, self._held = self._held or [], None
        self.past.hear(held)
        self._changed.everything = True
        self._bell.set()

    async def _sample(self, ask: Ask) -> None:
        while True:
            now = self._fairlead.store.now()
            await asyncio.sleep(STEP - now % STEP)
            if self._held is None:
                with suppress(FairleadError):
                    found = await ask(self._fairlead.store.tallies)
                    self.past.sample(self._fairlead.store.now(), found)
                    self.past.forget(self._fairlead.store.now())

    # --- events and viewers ---

    def hear(self, events: Sequence[Event]) -> None:
        """Take in what happened."""
        revoked = {each.data.get("key") for each in events if each.kind is EventKind.KEY_REVOKED}
        if revoked:
            self._end_those(lambda viewer: viewer.key_id in revoked)
        if self._held is not None:
            self._held.extend(events)
        else:
            self.past.hear(events)
        self._changed.note(events)
        self._bell.set()

    def watch(self, viewer: Viewer, after: str) -> bool:
        """Send the viewer what comes, and what came after `after`; False: too much has come."""
        self._viewers.add(viewer)
        self._bell.set()
        epoch, _, number = after.partition(".")
        if epoch != self.epoch or not (number.isascii() and number.isdigit()):
            return False
        missed = [each for each in self._recent if each.number > int(number)]
        if len(missed) != self.number - int(number):
            return False
        for message in missed:
            viewer.put(message)
        return True

    def leave(self, viewer: Viewer) -> None:
        """Send it no more."""
        self._viewers.discard(viewer)

    def end_session(self, session: str) -> None:
        """End the streams of a session that was ended."""
        self._end_those(lambda viewer: viewer.session == session)

    def _end_those(self, is_meant: Callable[[Viewer], bool]) -> None:
        for viewer in list(self._viewers):
            if is_meant(viewer):
                viewer.close("ended")

    @property
    def mark(self) -> str:
        """Which messages a page that is made now knows already."""
        return f"{self.epoch}.{self.number}"

    # --- looking ---

    async def _run(self, ask: Ask) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SLOW if self._viewers else None):
                    await self._bell.wait()
            self._bell.clear()
            if not self._viewers or self._held is not None:
                continue
            changed, self._changed = self._changed, _Changed(everything=False)
            try:
                message, worked = await ask(self._timed_look, changed)
            except FairleadError as error:
                _log.warning("fairlead: the dashboard cannot be kept up to date: %s", error)
                self._changed.everything = True
                message, worked = None, 0.0
            if message is not None:
                self._publish(message)
            await asyncio.sleep(min(LONGEST_REST, max(TICK, REST * worked)))

    def _publish(self, message: LiveMessage) -> None:
        self.number = message.number
        self._recent.append(message)
        for viewer in self._viewers:
            viewer.put(message)

    def _timed_look(self, changed: _Changed) -> tuple[LiveMessage | None, float]:
        """A look, and the seconds of work that it took; waiting is not work."""
        began = thread_time()
        return self._look(changed), thread_time() - began

    def _look(self, changed: _Changed) -> LiveMessage | None:
        """In a thread: read what changed, and say how that differs from what was shown."""
        now = self._fairlead.store.now()
        is_slow = monotonic() - self._slow_at >= SLOW or changed.everything
        if is_slow:
            self._slow_at = monotonic()
            self._rules = self._rules_now()
            self._fairness = self._fairlead.queue.fairness()
            self._waits = self.past.waits_by_class()
        self._read(changed)
        names = self._to_show(changed.customers, now, everyone=changed.everything, slow=is_slow)
        customers = self._changed_rows(names, now)
        found = self._overview(now)
        told = {name: value for name, value in found.items() if self._figures.get(name) != value}
        self._figures = found
        lists = self._changed_lists()
        documents = self._documents(changed.documents)
        if not (told or lists or customers or documents):
            return None
        return LiveMessage(self.number + 1, told, lists, customers, documents)

    def _read(self, changed: _Changed) -> None:
        store = self._fairlead.store
        if changed.everything or len(changed.customers) > MOST_AT_ONCE:
            self._records = {each.name: each for each in store.customers()}
            return
        for name in changed.customers:
            self._records[name] = store.customer(name)

    def _to_show(
        self, names: Collection[str], now: float, *, everyone: bool, slow: bool
    ) -> Collection[str]:
        """Whose rows may differ: those named, and those that time alone has changed."""
        if everyone or len(names) > MOST_AT_ONCE or (slow and self._policy == "fair"):
            return self._records
        if not slow:
            return names
        due = {row.name for row in self._rows.values() if row.resets_at and row.resets_at < now}
        shared = {
            row.name
            for row in self._rows.values()
            if round(100 * self.past.work.share(row.name), 1) != row.share
        }
        return due.union(names, shared)

    @property
    def _policy(self) -> PolicyName:
        return self._rules[0] if self._rules else "classic"

    def _changed_rows(self, names: Iterable[str], now: float) -> dict[str, dict[str, Any]]:
        told = {}
        for name in names:
            row, before = self._row(self._records[name], now), self._rows.get(name)
            if row != before:
                self._rows[name] = row
                told[name] = _difference(row, before)
        return told

    def _row(self, customer: CustomerRecord, now: float) -> Row:
        """A customer's row, by the rules of the last look."""
        return self._row_by(self._rules or self._rules_now(), customer, now)

    def rows(self, customers: Iterable[CustomerRecord]) -> list[Row]:
        """Customers' rows as of now, whether somebody watches or not."""
        rules, now = self._rules_now(), self._fairlead.store.now()
        return [self._row_by(rules, each, now) for each in customers]

    def _rules_now(self) -> tuple[PolicyName, Clock]:
        return self._fairlead.queue.policy(), self._fairlead.store.clock()

    def _row_by(self, rules: tuple[PolicyName, Clock], customer: CustomerRecord, now: float) -> Row:
        rule = self._fairlead.customers.rule(customer, rules[0])
        following = self._fairlead.customers.next_place(customer, *rules)
        return customer_row(customer, rule, following, self.past, now)

    def _overview(self, now: float) -> dict[str, Any]:
        fairness = self._fairness or self._fairlead.queue.fairness()
        tallies = self._fairlead.store.tallies()
        found = figures(self._rows.values(), tallies, fairness, self.past, self._waits, now)
        return found | {"step": int(now) // STEP}

    def _changed_lists(self) -> dict[str, Any]:
        waiting = who_waits(self._rows.values())
        found = {"waits": waiting, "workers": self.workers()}
        told = {name: value for name, value in found.items() if self._lists.get(name) != value}
        self._lists = found
        return told

    def workers(self) -> list[dict[str, Any]]:
        """What workers do now."""
        return worker_rows(list(self.past.running.values()), self._name_of, MOST_WORKERS)

    def _documents(self, ids: Iterable[str]) -> list[dict[str, Any]]:
        found = []
        for id_ in ids:
            with suppress(UnknownDocument):
                found.append(document_row(self._fairlead.document(id_)))
        return found


def _name(fairlead: Fairlead, document: str) -> str:
    """A document's name; it never changes."""
    try:
        return fairlead.document(document).name
    except UnknownDocument:
        return ""


def _difference(row: Row, before: Row | None) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _FIELDS}
    if before is None:
        return values
    return {name: value for name, value in values.items() if getattr(before, name) != value}


def remembered(fairlead: Fairlead, until: int) -> LastHour:
    """The last hour, from the store's events up to one of them."""
    now, past = fairlead.store.now(), LastHour()
    after = max(_first_since(fairlead, now - last_hour.HOUR, until), until - MOST_REPLAYED)
    changes: list[tuple[float, str, int]] = []
    while after < until:
        events = [each for each in fairlead.store.events(after, PORTION) if each.seq <= until]
        if not events:
            break
        after = events[-1].seq
        past.hear(events)
        changes += [
            (each.at, each.document, CHANGES[each.kind])
            for each in events
            if each.kind in CHANGES and each.document is not None
        ]
    priority = lru_cache(None)(lambda id_: _priority(fairlead, id_))
    past.samples.extend(last_hour.before(now, fairlead.store.tallies(), changes, priority))
    past.forget(now)
    return past


def _priority(fairlead: Fairlead, id_: str) -> int | None:
    try:
        return fairlead.document(id_).priority
    except UnknownDocument:
        return None


def _first_since(fairlead: Fairlead, moment: float, until: int) -> int:
    """A number after which all events came since a moment; found by halving."""
    low, high = 0, until
    while low < high:
        middle = (low + high) // 2
        found = fairlead.store.events(middle, 1)
        if found and found[0].at < moment:
            low = found[0].seq
        else:
            high = middle
    return low
