"""Random histories of the queue, played on a queue that is wholly in memory or loaded in portions.

`PartlyLoaded` does what a store does: it keeps rows, and each claim loads the part of them that it
needs, folds what happened, chooses, and saves what changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st

from fairlead.policy.fair import FairClock, FairRule, FairShare
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName, Queue, QueueState, Start
from fairlead.policy.queue_entry import Entry, Member, QueuedDocument
from fairlead.policy.queue_events import (
    Arrived,
    Dropped,
    Ended,
    MemberChanged,
    MemberEvent,
    Reset,
)
from fairlead.policy.quotas import Quota

CUSTOMERS = (1, 2, 3, 4, 5, 6)
ACCOUNTS = (None, None, -1)
PIPELINES = ("default", "slow")
NONE_BY_AGE = -1


class World(NamedTuple):
    """The settings of a history."""

    policy: PolicyName
    unit: float = 2.0
    allowance: float = 4.0
    interval: float = 20.0
    lane: OverdueLane | None = None
    quotas: tuple[Quota, Quota] = (Quota(), Quota())

    def rule(self) -> FairRule:
        return FairRule(self.unit, self.allowance, self.interval)

    def state(self) -> QueueState:
        quotas = dict(zip(PIPELINES, deepcopy(self.quotas), strict=True))
        return QueueState(self.policy, quotas=quotas)


class Submit(NamedTuple):
    """A customer submits documents."""

    customer: int
    documents: int
    pipeline: str
    priority: int
    urgent: bool
    estimate: float


class Claim(NamedTuple):
    """Workers claim documents; of all pipelines, or of these."""

    number: int
    pipelines: tuple[str, ...] | None


class End(NamedTuple):
    """The end of an attempt; `how` is the outcome for the document."""

    which: int
    how: str
    factor: float


class Due(NamedTuple):
    """A delayed document waits again."""

    which: int


class Cancel(NamedTuple):
    """A waiting document is cancelled."""

    which: int


class Change(NamedTuple):
    """A customer's settings."""

    customer: int
    account: int | None
    is_paused: bool
    cap: int | None
    weight: float


class Forgive(NamedTuple):
    """A customer's debt is forgotten."""

    customer: int


class Pass(NamedTuple):
    """Time passes."""

    seconds: float


Operation = Submit | Claim | End | Due | Cancel | Change | Forgive | Pass


def histories(*, accounts: bool) -> st.SearchStrategy[list[Operation]]:
    """Operations in order; more documents are submitted than anything else happens."""
    customers = st.sampled_from(CUSTOMERS)
    amounts = st.sampled_from([0.0, 1.0, 2.0, 3.0, 7.0, 15.0])
    shared = st.sampled_from(ACCOUNTS) if accounts else st.none()
    submits = st.builds(
        Submit,
        customers,
        st.integers(1, 5),
        st.sampled_from(PIPELINES),
        st.integers(1, 4),
        st.sampled_from([False, False, True]),
        amounts,
    )
    claims = st.builds(
        Claim, st.integers(1, 6), st.sampled_from([None, None, PIPELINES[:1], PIPELINES])
    )
    ends = st.builds(
        End,
        st.integers(0, 50),
        st.sampled_from(["done", "done", "done", "lost", "retry", "unknown"]),
        st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0]),
    )
    others = st.one_of(
        st.builds(Due, st.integers(0, 50)),
        st.builds(Cancel, st.integers(0, 50)),
        st.builds(
            Change,
            customers,
            shared,
            st.sampled_from([False, False, True]),
            st.sampled_from([None, None, 1, 2]),
            st.sampled_from([1.0, 1.0, 2.0, 0.5]),
        ),
        st.builds(Forgive, customers),
        st.builds(Pass, amounts),
    )
    usual = [submits, submits, claims, claims, ends]
    return st.lists(st.one_of(*usual, *usual, others), min_size=15, max_size=60)


def dense_history(seed: int, *, accounts: bool = True, length: int = 80) -> list[Operation]:
    """By chance: many documents wait, and most claims find some."""
    chance = random.Random(seed)
    amounts = [0.0, 1.0, 2.0, 3.0, 7.0, 15.0]
    pipelines = chance.choice([PIPELINES, PIPELINES[:1]])

    def submit() -> Operation:
        customer = chance.choice(CUSTOMERS)
        level, urgent = chance.randint(1, 4), chance.random() < 0.25
        name = chance.choice(pipelines)
        return Submit(customer, chance.randint(1, 5), name, level, urgent, chance.choice(amounts))

    def change() -> Operation:
        account = chance.choice(ACCOUNTS) if accounts else None
        cap, weight = chance.choice([None, None, 1, 2]), chance.choice([1.0, 1.0, 2.0, 0.5])
        return Change(chance.choice(CUSTOMERS), account, chance.random() < 0.2, cap, weight)

    def end() -> Operation:
        how = chance.choice(["done", "done", "done", "lost", "retry", "unknown"])
        return End(chance.randrange(50), how, chance.choice([0.0, 0.5, 1.0, 1.0, 3.0]))

    rare: list[Callable[[], Operation]] = [
        lambda: Due(chance.randrange(50)),
        lambda: Cancel(chance.randrange(50)),
        change,
        lambda: Forgive(chance.choice(CUSTOMERS)),
    ]
    usual: list[Callable[[], Operation]] = [
        submit,
        lambda: Claim(chance.randint(1, 6), chance.choice([None, None, PIPELINES[:1], PIPELINES])),
        end,
        end,
        lambda: Pass(chance.choice(amounts)),
    ]
    return [chance.choice(rare if chance.random() < 0.2 else usual)() for _ in range(length)]


POLICIES: tuple[PolicyName, ...] = ("classic", "fair")
ALLOWANCES = (1.0, 4.0)
INTERVALS = (20.0, 0.0, 5.0)
LANES = (OverdueLane(3.0, 2), None, OverdueLane(9.0, 4), OverdueLane(0.0, 2))
QUOTAS = (
    (Quota(), Quota()),
    (Quota(), Quota(max_running=1)),
    (Quota(max_running=2), Quota(rate=0.2)),
)

worlds = st.builds(
    World,
    policy=st.sampled_from(POLICIES),
    unit=st.just(2.0),
    allowance=st.sampled_from(ALLOWANCES),
    interval=st.sampled_from(INTERVALS),
    lane=st.sampled_from(LANES),
    quotas=st.sampled_from(QUOTAS),
)


def world_by_lot(seed: int) -> World:
    lot = random.Random(-1 - seed)
    return World(
        lot.choice(POLICIES),
        2.0,
        lot.choice(ALLOWANCES),
        lot.choice(INTERVALS),
        lot.choice(LANES),
        lot.choice(QUOTAS),
    )


class Backend(Protocol):
    """A queue that a history is played on."""

    def arrive(self, documents: Sequence[QueuedDocument], now: float, were_delayed: int) -> None:
        """Documents of one customer and one pipeline wait."""
        ...

    def drop(self, document: QueuedDocument, now: float) -> None:
        """A document waits no more."""
        ...

    def fold(self, event: MemberEvent) -> None:
        """Anything else happened."""
        ...

    def choose(self, number: int, now: float, pipelines: Sequence[str] | None) -> list[Start]:
        """Start the next documents."""
        ...


class Started(NamedTuple):
    """A start in the form that both backends must return."""

    number: int
    customer: int
    slot: tuple[int, int]
    through_lane: bool
    payer: int
    charge: Any
    inner: Any


def play(operations: Iterable[Operation], world: World, backend: Backend) -> list[list[Started]]:
    """The starts of each claim."""
    player = _Player(world, backend)
    for operation in operations:
        player.play(operation)
    return player.claims


class _Player:
    def __init__(self, world: World, backend: Backend) -> None:
        self.claims: list[list[Started]] = []
        self._is_fair = world.policy == "fair"
        self._backend = backend
        self._now = 0.0
        self._number = 0
        self._waiting: dict[int, QueuedDocument] = {}
        self._delayed: dict[int, QueuedDocument] = {}
        self._running: dict[int, Start] = {}

    def play(self, operation: Operation) -> None:
        match operation:
            case Submit():
                self._submit(operation)
            case Claim(number, pipelines):
                self._claim(number, pipelines)
            case End() if self._running:
                self._end(operation)
            case Due(which) if self._delayed:
                self._wait([self._pick(self._delayed, which)], were_delayed=1)
            case Cancel(which) if self._waiting:
                self._backend.drop(self._pick(self._waiting, which), self._now)
            case Pass(seconds):
                self._now += seconds
            case _:
                self._change(operation)

    def _change(self, operation: Operation) -> None:
        match operation:
            case Change():
                self._backend.fold(MemberChanged(self._now, *operation))
            case Forgive(customer):
                self._backend.fold(Reset(self._now, customer))
            case _:
                pass  # there is nothing to end, to cancel or to wait again

    def _submit(self, submit: Submit) -> None:
        documents = []
        for _ in range(submit.documents):
            self._number += 1
            documents.append(
                QueuedDocument(
                    self._number,
                    submit.customer,
                    self._slot(self._number, submit.priority, submit.urgent),
                    priority=submit.priority,
                    urgent=submit.urgent,
                    estimate=submit.estimate,
                    submitted_at=self._now,
                    pipeline=submit.pipeline,
                )
            )
        self._wait(documents)

    def _slot(self, number: int, priority: int, urgent: bool) -> tuple[int, int]:
        return (0 if urgent else 1, number) if self._is_fair else (priority, number)

    def _wait(self, documents: list[QueuedDocument], were_delayed: int = 0) -> None:
        self._waiting |= {document.number: document for document in documents}
        self._backend.arrive(documents, self._now, were_delayed)

    def _claim(self, number: int, pipelines: tuple[str, ...] | None) -> None:
        starts = self._backend.choose(number, self._now, pipelines)
        for start in starts:
            del self._waiting[start.document.number]
            self._running[start.document.number] = start
        self.claims.append([_started(start) for start in starts])

    def _end(self, end: End) -> None:
        start = self._pick(self._running, end.which)
        document = start.document
        seconds: float | None = document.estimate * end.factor
        if end.how == "lost":
            seconds = 0.0
        elif end.how == "unknown":
            seconds = None
        self._backend.fold(
            Ended(
                self._now,
                start.customer,
                document.pipeline,
                seconds,
                start.payer,
                start.charge,
                start.inner,
                is_delayed=end.how == "retry",
            )
        )
        again = _copy(document)
        if end.how == "lost":
            self._wait([again])
        elif end.how == "retry":
            self._delayed[again.number] = again

    @staticmethod
    def _pick(items: dict[int, Any], which: int) -> Any:
        return items.pop(sorted(items)[which % len(items)])


def _started(start: Start) -> Started:
    document = start.document
    return Started(
        document.number,
        start.customer,
        document.slot,
        start.through_lane,
        start.payer,
        _rounded(start.charge),
        _rounded(start.inner),
    )


def _rounded(charge: tuple[float, float, bool] | None) -> tuple[float, float, bool] | None:
    return None if charge is None else (round(charge[0], 9), charge[1], charge[2])


def _copy(document: QueuedDocument) -> QueuedDocument:
    """The document as it waits again: with its slot, which may be one that it took over."""
    return QueuedDocument(
        document.number,
        document.customer,
        document.slot,
        priority=document.priority,
        urgent=document.urgent,
        estimate=document.estimate,
        submitted_at=document.submitted_at,
        pipeline=document.pipeline,
        is_displaced=document.is_displaced,
    )


class InMemory:
    """The whole queue in memory, folded at once."""

    def __init__(self, world: World) -> None:
        self.queue = Queue(world.rule(), world.lane, world.state())

    def arrive(self, documents: Sequence[QueuedDocument], now: float, were_delayed: int) -> None:
        for document in documents:
            self.queue.push(document, now)
            self.queue.member(document.customer).delayed -= were_delayed

    def drop(self, document: QueuedDocument, now: float) -> None:
        self.queue.drop(document, now)

    def fold(self, event: MemberEvent) -> None:
        self.queue.fold([event])

    def choose(self, number: int, now: float, pipelines: Sequence[str] | None) -> list[Start]:
        return self.queue.choose(number, now, pipelines)


class PartlyLoaded:
    """Rows as a store has them. A claim loads `width` entries and `depth` documents at a time."""

    def __init__(self, world: World, width: int, depth: int, overdue: int) -> None:
        self._world = world
        self._width, self._depth, self._overdue = width, depth, overdue
        self._state = world.state()
        self._members: dict[int, dict[str, Any]] = {}
        self._entries: dict[tuple[int, str], dict[str, Any]] = {}
        self._documents: dict[int, QueuedDocument] = {}
        self._events: list[MemberEvent] = []

    def arrive(self, documents: Sequence[QueuedDocument], now: float, were_delayed: int) -> None:
        first = documents[0]
        self._documents |= {document.number: _copy(document) for document in documents}
        self._events.append(
            Arrived(
                now,
                first.customer,
                first.pipeline,
                len(documents),
                sum(document.estimate for document in documents),
                min(document.slot for document in documents),
                min((document.number, document.submitted_at) for document in documents),
                were_delayed,
                any(document.urgent or document.is_displaced for document in documents),
            )
        )

    def drop(self, document: QueuedDocument, now: float) -> None:
        self._fold()  # the rows of the entry must not name a deleted document
        del self._documents[document.number]
        self._events.append(
            Dropped(now, document.customer, document.pipeline, 1, document.estimate)
        )
        self._fold()

    def fold(self, event: MemberEvent) -> None:
        self._events.append(event)

    def choose(self, number: int, now: float, pipelines: Sequence[str] | None) -> list[Start]:
        """Claims that end early are made again, with more loaded where nothing was chosen."""
        starts: list[Start] = []
        width, depth, overdue = self._width, self._depth, self._overdue
        for _ in range(200):
            queue = self._loaded(now, width, overdue)
            chosen = self._choose(queue, number - len(starts), now, pipelines, depth)
            self._save(queue)
            starts += chosen
            if len(starts) == number or not queue.needs_entries:
                return starts
            if not chosen:
                width, overdue = width + 1, overdue + 1
        raise AssertionError("the claim does not come to an end")

    def _choose(
        self, queue: Queue, number: int, now: float, pipelines: Sequence[str] | None, depth: int
    ) -> list[Start]:
        starts: list[Start] = []
        while True:
            chosen = queue.choose(number - len(starts), now, pipelines)
            for start in chosen:
                del self._documents[start.document.number]
            starts += chosen
            if not queue.needs_documents:
                return starts
            self._load_documents(queue, depth)
            depth += 1

    # --- loading ---

    def _fold(self) -> None:
        self._save(self._loaded(0.0, 0, 0))

    def _loaded(self, now: float, width: int, overdue: int) -> Queue:
        queue = Queue(self._world.rule(), self._world.lane, deepcopy(self._state))
        wanted = {event.customer for event in self._events}
        wanted |= {event.payer for event in self._events if isinstance(event, Ended)}
        wanted |= {
            event.account
            for event in self._events
            if isinstance(event, MemberChanged) and event.account is not None
        }
        for pipeline in PIPELINES:
            wanted |= self._best(queue, pipeline, width)
            wanted |= self._most_overdue(queue, pipeline, now, overdue)
        for id_ in self._with_accounts(wanted):
            queue.add(self._member(queue, id_))
        queue.queue_loaded()
        queue.fold(self._events)
        while queue.needs_documents:
            self._load_documents(queue, self._depth)
        self._events = []
        return queue

    def _best(self, queue: Queue, pipeline: str, width: int) -> set[int]:
        rows = [
            (row["place"], id_)
            for (id_, name), row in self._entries.items()
            if name == pipeline and row["place"] is not None and row["wait"] is not None
        ]
        best = sorted(rows)[:width]
        if best and len(best) == width:
            queue.loaded_up_to[pipeline] = best[-1][0]
        return {id_ for _, id_ in best}

    def _most_overdue(self, queue: Queue, pipeline: str, now: float, number: int) -> set[int]:
        if self._world.lane is None:
            return set()
        before = now - self._world.lane.after
        rows = [
            (row["wait"], id_)
            for (id_, name), row in self._entries.items()
            if name == pipeline and row["wait"] is not None and row["wait"][0] < before
        ]
        longest = sorted(rows)[:number]
        if longest and len(longest) == number:
            queue.overdue_loaded_up_to[pipeline] = longest[-1][0]
        return {id_ for _, id_ in longest}

    def _with_accounts(self, ids: set[int]) -> list[int]:
        """Those that are stored; under fair with their accounts, and all customers of these."""
        if self._world.policy == "fair":
            accounts = {self._members[id_]["account"] for id_ in ids if id_ in self._members}
            accounts |= {id_ for id_ in ids if id_ < 0}
            accounts.discard(None)
            inner = {id_ for id_, row in self._members.items() if row["account"] in accounts}
            ids = ids | accounts | inner
        return sorted(id_ for id_ in ids if id_ in self._members)

    def _member(self, queue: Queue, id_: int) -> Member:
        row = dict(self._members[id_])
        share, clock = FairShare(*row.pop("share")), row.pop("clock")
        member = Member(id_, share=share, **row)
        if clock is not None:
            member.inner_clock = FairClock(queue.rule, clock, queue.clock.tickets)
        for (owner, pipeline), values in self._entries.items():
            if owner == id_:
                entry = member.entry(pipeline)
                entry.waiting, entry.has_ahead = values["waiting"], values["has_ahead"]
                entry.head, entry.oldest = values["head"], values["oldest"]
                if queue.is_fair and values["place"] is not None:
                    share.place = values["place"]
        return member

    def _load_documents(self, queue: Queue, depth: int) -> None:
        """Load the first documents of the entries that need some."""
        entries = sorted(queue.needs_documents, key=_entry_order)
        queue.needs_documents.clear()
        for entry in entries:
            self._load_entry(entry, depth, is_fair=queue.is_fair)
        for entry in entries:
            queue.settle_loaded(entry)

    def _load_entry(self, entry: Entry, depth: int, *, is_fair: bool) -> None:
        """By slot and, where the oldest is not known, by age; urgent ones under classic only.

        The lane looks for the slot that came first, which any urgent or displaced one may hold.
        """
        waiting = self._waiting_in(entry)
        by_age = sorted(waiting, key=lambda document: document.number)
        by_turn = sorted(
            (
                document
                for document in waiting
                if not is_fair and (document.urgent or document.is_displaced)
            ),
            key=lambda document: document.turn,
        )
        by_slot = sorted(waiting, key=lambda document: document.slot)[:depth]
        last_slot = last_age = last_turn = None
        if len(waiting) > depth:
            last_slot, last_age = by_slot[-1].slot, NONE_BY_AGE
        if entry.oldest is not None:
            by_age = []
        elif not by_turn:
            by_age = by_age[:depth]
        if by_age and last_slot is not None:
            last_age = by_age[-1].number
        if entry.oldest is not None and len(by_turn) > depth:
            by_turn = by_turn[:depth]
            last_turn = by_turn[-1].turn
        entry.has_ahead = bool(by_turn) or (is_fair and entry.has_ahead)
        documents = {document.number: document for document in (*by_slot, *by_age, *by_turn)}
        entry.load(documents.values(), last_slot, last_age, last_turn)

    def _waiting_in(self, entry: Entry) -> list[QueuedDocument]:
        key = (entry.member.id, entry.pipeline)
        documents = self._documents.values()
        return [document for document in documents if (document.customer, document.pipeline) == key]

    # --- saving ---

    def _save(self, queue: Queue) -> None:
        self._state = queue.save_state()
        for member in queue.changed:
            share = member.share
            self._members[member.id] = {
                "account": member.account,
                "is_account": member.is_account,
                "is_paused": member.is_paused,
                "cap": member.cap,
                "processing": member.processing,
                "delayed": member.delayed,
                "last_started_at": member.last_started_at,
                "share": (
                    share.weight, share.interval, share.debt, share.debt_at, share.tag,
                    share.queued, share.tagged,
                ),
                "clock": None if member.inner_clock is None else member.inner_clock.value,
            }  # fmt: skip
            for entry in member.entries.values():
                if entry.is_oldest_stale and entry.waiting and not member.is_account:
                    oldest = min(self._waiting_in(entry), key=lambda document: document.number)
                    entry.oldest = (oldest.number, oldest.submitted_at)
                    entry.is_oldest_stale = False
        for member in queue.changed:
            if member.is_account:
                queue.sum_up(member.id)
            for entry in member.entries.values():
                self._save_entry(queue, entry)

    def _save_entry(self, queue: Queue, entry: Entry) -> None:
        place = queue.place_of(entry)
        is_inner = queue.is_fair and entry.member.account is not None
        self._entries[entry.member.id, entry.pipeline] = {
            "waiting": entry.waiting,
            "head": entry.head if entry.waiting else None,
            "oldest": entry.oldest if entry.waiting else None,
            "has_ahead": entry.has_ahead,
            "place": place,
            "wait": None if place is None or is_inner else queue.wait_of(entry),
        }


def _entry_order(entry: Entry) -> tuple[int, str]:
    return entry.member.id, entry.pipeline
