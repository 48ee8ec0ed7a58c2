"""The queue: who is next. Pure, without clock and I/O; stores and simulator call the same code.

`fold` brings the queue up to what happened; `choose` takes the next documents by policy, overdue
lane, caps and quotas.

- A *member* is a customer, or under fair an account that several customers share. Customers of a
  shared account compete inside it, by the same rule once more.
- An *entry* is a member's waiting documents of one pipeline. It has a place while something of its
  member may run, lowest first: under classic the key of its best document, under fair the place of
  its member.
- A document's *slot* is its place among the documents of its entry: under classic (priority,
  arrival), under fair (not urgent, arrival). Under classic an urgent document swaps slots with the
  customer's best one, so that nobody else is affected.

The simulator holds the whole queue in memory. A store loads a part of it: `needs_documents` and
`needs_entries` say what is to be loaded before `choose` can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace, nsmallest
from itertools import chain
from math import exp, inf
from operator import attrgetter, itemgetter
from typing import ClassVar, Literal, NamedTuple

from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.policy.fair import Charge, FairClock, FairRule, Place, Share
from fairlead.policy.overdue_lane import OverdueLane, waits_since
from fairlead.policy.queue_events import (
    Arrived,
    Deferred,
    Dropped,
    Ended,
    MemberChanged,
    QueueEvent,
    Reset,
)
from fairlead.policy.quotas import Quota

PolicyName = Literal["classic", "fair"]
Slot = tuple[int, int]
Turn = tuple[bool, int, int]
MayStart = Callable[["QueuedDocument"], bool]


class QueuedDocument:
    """A waiting document. `number` is its arrival number."""

    __slots__ = (
        "customer", "estimate", "is_displaced", "is_waiting", "number", "pipeline", "priority",
        "slot", "submitted_at", "urgent",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        customer: int,
        slot: Slot,
        *,
        priority: int = 1,
        urgent: bool = False,
        estimate: float = 0.0,
        submitted_at: float = 0.0,
        pipeline: str = DEFAULT_PIPELINE,
        is_displaced: bool = False,
    ) -> None:
        self.number = number
        self.customer = customer
        self.slot = slot
        self.priority = priority
        self.urgent = urgent
        self.estimate = estimate
        self.submitted_at = submitted_at
        self.pipeline = pipeline
        self.is_displaced = is_displaced
        self.is_waiting = True

    def __lt__(self, other: QueuedDocument) -> bool:
        return False  # equal keys are of the same document, which was queued again

    @property
    def key(self) -> Slot:
        """Its own slot under classic, which it has unless it swapped slots."""
        return self.priority, self.number

    @property
    def turn(self) -> Turn:
        """The order in which a customer's documents go under classic."""
        return not self.urgent, self.priority, self.number


@dataclass(slots=True, eq=False)
class Member:
    """A customer, or an account that several customers share; `account` is the one it is inside."""

    id: int
    account: int | None = None
    is_account: bool = False
    is_paused: bool = False
    cap: int | None = None
    processing: int = 0
    delayed: int = 0
    last_started_at: float | None = None
    share: Share = field(default_factory=Share)
    work: float = 0.0
    work_at: float = 0.0
    """Work done for it, fading with the reset interval; for the figures, not for the order."""
    inner_clock: FairClock | None = None
    resumed_at: float | None = None
    told_of: float | None = None
    """Since when it waited as it was last reported that it waited longer than the bound."""
    entries: dict[str, Entry] = field(default_factory=dict)
    inner: dict[int, Member] = field(default_factory=dict)
    """The customers of a shared account, under fair."""

    @property
    def waiting(self) -> int:
        """Documents that wait, those that are delayed included."""
        return self.delayed + sum(entry.waiting for entry in self.entries.values())

    @property
    def may_start_more(self) -> bool:
        return not self.is_paused and (self.cap is None or self.processing < self.cap)

    def entry(self, pipeline: str) -> Entry:
        entry = self.entries.get(pipeline)
        if entry is None:
            entry = self.entries[pipeline] = Entry(self, pipeline)
        return entry


class Entry:
    """A member's waiting documents of one pipeline, or the first of them.

    `head` is the best slot and `oldest` (arrival number, time) of the oldest document; None while
    documents wait: it is to be loaded. Documents are loaded from the front of each order, up to
    `last_slot`, `last_age` and `last_turn`; None: all are. `has_ahead`: some may be urgent or
    displaced.

    After a start the oldest document need not be known at once: the member waits anew from then on.
    `is_oldest_stale`: it was started, and the next one is not loaded.

    `queued_as` is its valid key among the places, with `place`; `lane_key` the one among the waits.
    """

    __slots__ = (
        "ages", "ahead", "has_ahead", "head", "is_oldest_stale", "lane_key", "last_age",
        "last_slot", "last_turn", "member", "oldest", "pipeline", "place", "queued_as", "slots",
        "waiting",
    )  # fmt: skip

    def __init__(self, member: Member, pipeline: str) -> None:
        self.member = member
        self.pipeline = pipeline
        self.waiting = 0
        self.head: Slot | None = None
        self.oldest: tuple[int, float] | None = None
        self.is_oldest_stale = False
        self.has_ahead = False
        self.last_slot: Slot | None = None
        self.last_age: int | None = None
        self.last_turn: Turn | None = None
        self.slots: list[tuple[Slot, int, QueuedDocument]] = []
        self.ages: list[tuple[int, QueuedDocument]] = []
        self.ahead: list[tuple[Turn, QueuedDocument]] = []
        self.place: Place | None = None
        self.queued_as: PlaceKey | None = None
        self.lane_key: WaitKey | None = None

    def __lt__(self, other: Entry) -> bool:
        return False  # equal keys are of the same entry

    @property
    def is_loaded(self) -> bool:
        """Whether documents of it were loaded."""
        return bool(self.slots) or self.last_slot is not None

    @property
    def is_known(self) -> bool:
        """Whether its place can be told without loading more."""
        return not self.waiting or (self.head is not None and self.oldest is not None)

    def load(
        self,
        documents: Iterable[QueuedDocument],
        last_slot: Slot | None = None,
        last_age: int | None = None,
        last_turn: Turn | None = None,
    ) -> None:
        """Replace what is loaded, by the first documents in each of the orders.

        The orders are those by slot, by age and, under classic, by turn of the urgent and displaced
        ones. The last of each is given; None: all of that order were loaded.
        """
        self.slots, self.ages, self.ahead = [], [], []
        for document in documents:
            self.push(document)
        self.last_slot, self.last_age, self.last_turn = last_slot, last_age, last_turn
        self.look()

    def push(self, document: QueuedDocument) -> None:
        heappush(self.slots, (document.slot, document.number, document))
        heappush(self.ages, (document.number, document))
        if document.urgent or document.is_displaced:
            heappush(self.ahead, (document.turn, document))
            self.has_ahead = True

    def add(self, documents: int, head: Slot, oldest: tuple[int, float]) -> bool:
        """Count documents that arrived; return whether head or oldest are theirs."""
        is_first = not self.waiting
        self.waiting += documents
        is_best = is_first or (self.head is not None and head < self.head)
        is_oldest = is_first or (self.oldest is not None and oldest < self.oldest)
        if is_best:
            self.head = head
        if is_oldest:
            self.oldest, self.is_oldest_stale = oldest, False
        return is_best or is_oldest

    def look(self) -> None:
        """Find head and oldest among the loaded documents; remove outdated keys before them."""
        slots, ages = self.slots, self.ages
        while slots and not (slots[0][2].is_waiting and slots[0][2].slot == slots[0][0]):
            heappop(slots)
        while ages and not ages[0][1].is_waiting:
            heappop(ages)
        best, oldest = self.best(), self.oldest_document()
        self.head = None if best is None else best.slot
        if oldest is not None:
            self.oldest, self.is_oldest_stale = (oldest.number, oldest.submitted_at), False
        elif self.last_age is None:
            self.oldest = None

    def best(self) -> QueuedDocument | None:
        """The holder of the best slot; None: it is not loaded."""
        if not self.slots or (self.last_slot is not None and self.slots[0][0] > self.last_slot):
            return None
        return self.slots[0][2]

    def oldest_document(self) -> QueuedDocument | None:
        if not self.ages or (self.last_age is not None and self.ages[0][0] > self.last_age):
            return None
        return self.ages[0][1]

    def take(self, document: QueuedDocument) -> None:
        document.is_waiting = False
        self.waiting -= 1
        if not self.waiting:
            self.slots, self.ages, self.ahead = [], [], []
            self.head = self.oldest = None
            return
        if self.oldest is not None and document.number == self.oldest[0]:
            self.is_oldest_stale = True
        self.look()

    def first_in_turn(self, best: QueuedDocument) -> QueuedDocument | None:
        """The document that goes at the best slot: urgent ones first. None: it is not loaded."""
        ahead = self.ahead
        if not ahead and self.last_turn is None:
            return best
        while ahead and not ahead[0][1].is_waiting:
            heappop(ahead)
        first = best if not ahead or ahead[0][0] >= best.turn else ahead[0][1]
        if self.last_turn is not None and first.turn > self.last_turn:
            return None
        if first.is_displaced and not first.urgent and best.slot < first.key:
            return self._first_with_own_slot(first)
        return first

    def _first_with_own_slot(self, displaced: QueuedDocument) -> QueuedDocument | None:
        """The first document that goes before a displaced one, which may have a better slot."""
        bound = displaced.key
        found = [
            (slot, document)
            for slot, _, document in self.slots
            if slot < bound and document.is_waiting and slot == document.slot == document.key
        ]
        slot, first = min(found, default=(bound, displaced))
        return first if self.last_slot is None or slot <= self.last_slot else None

    def oldest_slot(self) -> QueuedDocument | None:
        """The holder of the slot that came first; the overdue lane uses it up."""
        waiting = (document for _, _, document in self.slots if document.is_waiting)
        return min(waiting, key=lambda document: document.slot[1], default=None)

    def swap(self, best: QueuedDocument, jumping: QueuedDocument) -> None:
        """Give the best slot to the document that goes, and its own slot to the displaced one."""
        best.slot, jumping.slot = jumping.slot, best.slot
        jumping.is_displaced = True  # where it waits again, its slot is not its key
        if not best.is_displaced:
            best.is_displaced = True
            heappush(self.ahead, (best.turn, best))
        heappush(self.slots, (best.slot, best.number, best))


PlaceKey = tuple[int, float, int, Entry]
WaitKey = tuple[float, int, Entry]
_waiting = attrgetter("waiting")


class Start(NamedTuple):
    """A document that was chosen, and what its end needs to settle.

    `payer` is the member that was charged; `inner` is what its customer was charged inside a
    shared account. None: nothing was charged, as under classic.
    """

    document: QueuedDocument
    customer: int
    through_lane: bool
    payer: int
    charge: Charge | None
    inner: Charge | None


@dataclass(slots=True)
class QueueState:
    """What belongs to the queue as a whole."""

    policy: PolicyName = "classic"
    clock: float = 0.0
    credit: int = 0
    next_ticket: int = 0
    quotas: dict[str, Quota] = field(default_factory=dict)
    """Of every pipeline that ever had documents."""


class Queue:
    """The queue, or the part of it that was loaded. Times are given, never asked for."""

    def __init__(self, rule: FairRule, lane: OverdueLane | None, state: QueueState) -> None:
        self.state = state
        self.rule = rule
        self.lane = lane
        self.is_fair = state.policy == "fair"
        self.members: dict[int, Member] = {}
        self.changed: set[Member] = set()
        """Members that differ from what was loaded."""
        self.needs_documents: set[Entry] = set()
        self.needs_entries: set[str] = set()
        """Pipelines whose next entry is beyond those that were loaded."""
        self.loaded_up_to: dict[str, Place] = {}
        """The last place that was loaded of each pipeline; missing: all were."""
        self.overdue_loaded_up_to: dict[str, tuple[float, int]] = {}
        self.clock = FairClock(rule, state.clock, [state.next_ticket])
        self._places: dict[str, list[PlaceKey]] = {}
        self._waits: dict[str, list[WaitKey]] = {}

    # --- what is loaded ---

    def member(self, id_: int) -> Member:
        """The member of this id; a new one where it is not known."""
        member = self.members.get(id_)
        if member is None:
            member = self.members[id_] = Member(id_)
        return member

    def add(self, member: Member) -> None:
        """Add a member as it was stored; its entries are queued by their places.

        Customers of a shared account may be added before the account.
        """
        known = self.members.get(member.id)
        if known is not None:
            member.inner = known.inner
        self.members[member.id] = member
        if self.is_fair and member.account is not None:
            self._shared_account(member.account).inner[member.id] = member

    def queue_loaded(self) -> None:
        """Queue the entries of all members that were added; once, before `fold`."""
        for member in self.members.values():
            if self._account_of(member) is None:
                self._queue_entries(member)

    def place_in_order(self, members: Iterable[int], now: float) -> None:
        """Give members that may run places in this order, after the policy was switched."""
        for id_ in members:
            member = self.member(id_)
            if self._account_of(member) is None:
                self._queue_entries(member)
            if member.share.place is None:
                self._settle(member, now)

    def sum_up(self, account: int) -> None:
        """Bring the entries of a shared account up to those of its customers."""
        if self.is_fair:
            self._sum_up(self.member(account))

    def settle_loaded(self, entry: Entry) -> None:
        """Place an entry whose documents were loaded."""
        account = self._account_of(entry.member)
        if account is not None:
            self._sum_up(account)
            self._queue_entries(account)
        else:
            self._queue_entry(entry)

    # --- what happened ---

    def fold(self, events: Iterable[QueueEvent]) -> None:
        """Bring the queue up to what happened."""
        for event in events:
            self._FOLDS[type(event)](self, event)

    def count(self, customer: int, now: float) -> int:
        """The fair rule's count of a document that this customer submits now."""
        member = self.member(customer)
        return self._clock_of(member).count(member.share, now)

    def drop(self, document: QueuedDocument, now: float) -> None:
        """Remove a waiting document of a queue that is wholly in memory."""
        document.is_waiting = False
        values = (document.customer, document.pipeline, 1, document.estimate)
        self._dropped(Dropped(now, *values))

    def push(self, document: QueuedDocument, now: float) -> None:
        """Add a document of a queue that is wholly in memory."""
        member = self.member(document.customer)
        entry = member.entry(document.pipeline)
        entry.push(document)
        oldest = (document.number, document.submitted_at)
        self._wait(member, entry, 1, document.estimate, document.slot, oldest, now)

    def _arrived(self, event: Arrived) -> None:
        member = self.member(event.customer)
        entry = member.entry(event.pipeline)
        member.delayed -= event.were_delayed
        entry.has_ahead |= event.has_ahead
        number, estimates = event.documents, event.estimates
        self._wait(member, entry, number, estimates, event.head, event.oldest, event.at)

    def _wait(
        self,
        member: Member,
        entry: Entry,
        documents: int,
        estimates: float,
        head: Slot,
        oldest: tuple[int, float],
        now: float,
    ) -> None:
        """Documents wait from now on; only the first, the best and the oldest move their entry."""
        self._quota(entry.pipeline)
        member.share.queued += estimates
        account = self._account_of(member)
        if account is not None:
            account.share.queued += estimates
        if entry.add(documents, head, oldest) or account is not None:
            self._settle(member, now)
        else:
            self.changed.add(member)

    def _deferred(self, event: Deferred) -> None:
        member = self.member(event.customer)
        member.delayed += event.documents
        self.changed.add(member)

    def _dropped(self, event: Dropped) -> None:
        member = self.member(event.customer)
        entry = member.entry(event.pipeline)
        entry.waiting -= event.documents
        member.delayed -= event.were_delayed
        if event.documents:
            entry.look()
        member.share.queued -= event.estimates
        account = self._account_of(member)
        if account is not None:
            account.share.queued -= event.estimates
        self._settle(member, event.at)

    def _ended(self, event: Ended) -> None:
        member = self.member(event.customer)
        member.processing -= 1
        member.delayed += event.is_delayed
        self._quota(event.pipeline).end()
        self._work_done(member, event)
        if self.is_fair and event.charge is not None:
            payer = self.member(event.payer)
            self.changed.add(payer)
            self.clock.correct(payer.share, Charge(*event.charge), event.seconds, event.at)
            if event.inner is not None and payer.inner_clock is not None:
                charge = Charge(*event.inner)
                payer.inner_clock.correct(member.share, charge, event.seconds, event.at)
            if payer is not member:
                self._settle(payer, event.at)
        if self.is_fair or member.cap is not None:
            self._settle(member, event.at)
        else:
            self.changed.add(member)

    def _member_changed(self, event: MemberChanged) -> None:
        member = self.member(event.customer)
        if self.is_fair and member.account != event.account:
            self._move(member, event.account, event.at)
        member.account = event.account
        if member.is_paused and not event.is_paused:
            member.resumed_at = event.at
        member.is_paused, member.cap = event.is_paused, event.cap
        owner = member
        if event.account is not None:
            owner = self._shared_account(event.account)
            member.share.weight = 1.0
        self.changed.add(owner)
        owner.share.weight = event.weight
        member.share.interval = event.interval
        self._settle(member, event.at)

    def _reset(self, event: Reset) -> None:
        member = self.member(event.customer)
        if self.is_fair:
            self._clock_of(member).forgive(member.share, event.at)
        self._settle(member, event.at)

    _FOLDS: ClassVar[dict[type, Callable[..., None]]] = {
        Arrived: _arrived,
        Deferred: _deferred,
        Dropped: _dropped,
        Ended: _ended,
        MemberChanged: _member_changed,
        Reset: _reset,
    }

    def _move(self, member: Member, to: int | None, now: float) -> None:
        """Take a customer out of its account and put it into another; its own debt goes along."""
        before = self._account_of(member)
        self._clock_of(member).leave(member.share, now)
        member.share.tag = 0.0
        member.account = None
        if before is not None:
            del before.inner[member.id]
            before.share.queued -= member.share.queued
            self._sum_up(before)
            self._settle(before, now)
        if to is not None:
            for entry in member.entries.values():
                entry.place = entry.queued_as = entry.lane_key = None
            account = self._shared_account(to)
            account.inner[member.id] = member
            account.share.queued += member.share.queued

    def _shared_account(self, id_: int) -> Member:
        account = self.member(id_)
        account.is_account = True
        account.inner_clock = account.inner_clock or self._new_inner_clock()
        return account

    def _new_inner_clock(self) -> FairClock:
        return FairClock(self.rule, 0.0, self.clock.tickets)

    def _work_done(self, member: Member, event: Ended) -> None:
        passed = event.at - member.work_at
        if passed > 0:
            member.work = fading(member.work, passed, self.rule.reset_interval)
            member.work_at = event.at
        member.work += event.seconds or 0.0

    # --- places ---

    def _account_of(self, member: Member) -> Member | None:
        """The shared account inside which a member competes; None: it competes with all."""
        if member.account is None or not self.is_fair:
            return None
        return self.member(member.account)

    def _clock_of(self, member: Member) -> FairClock:
        account = self._account_of(member)
        return self.clock if account is None else account.inner_clock or self.clock

    def _settle(self, member: Member, now: float) -> None:
        """Give a member that may run a place, and take it from one that may not."""
        self.changed.add(member)
        account = None
        if self.is_fair:
            account = self._account_of(member)
            share = member.share
            if self._may_run(member):
                if share.place is None:
                    self._clock_of(member).enter(share, now)
            elif share.place is not None:
                self._clock_of(member).leave(share, now)
        if account is None:
            self._queue_entries(member)
        else:
            self._sum_up(account)
            self._settle(account, now)

    def _may_run(self, member: Member) -> bool:
        if member.is_account:
            return any(inner.share.place for inner in member.inner.values())
        return member.may_start_more and any(map(_waiting, member.entries.values()))

    def _sum_up(self, account: Member) -> None:
        """Bring a shared account up to its customers: the last start, and what of them may run."""
        starts = [member.last_started_at for member in account.inner.values()]
        account.last_started_at = max((at for at in starts if at is not None), default=None)
        for entry in account.entries.values():
            entry.waiting, entry.head, entry.oldest = 0, None, None
        for member in account.inner.values():
            if member.share.place is None:
                continue
            for inner in member.entries.values():
                if not inner.waiting:
                    continue
                entry = account.entry(inner.pipeline)
                entry.waiting += inner.waiting
                if not inner.is_known:
                    self.needs_documents.add(inner)
                    continue
                assert inner.head is not None and inner.oldest is not None  # noqa: S101, PT018
                entry.head = min(entry.head or inner.head, inner.head)
                entry.oldest = min(entry.oldest or inner.oldest, inner.oldest)

    def _queue_entries(self, member: Member) -> None:
        for entry in member.entries.values():
            if entry.waiting or entry.place is not None:
                self._queue_entry(entry)

    def _queue_entry(self, entry: Entry) -> None:
        """Queue an entry by its place and by how long it has waited; invalid keys stay behind."""
        place = self.place_of(entry)
        if place != entry.place:
            entry.place = place
            entry.queued_as = None if place is None else (*place, entry)
            if entry.queued_as is not None:
                heappush(self._places.setdefault(entry.pipeline, []), entry.queued_as)
        if place is not None and self.lane is not None:
            key, oldest = entry.lane_key, entry.oldest
            if key is None or oldest is None or oldest[1] <= key[0]:
                self._queue_wait(entry)

    def _queue_wait(self, entry: Entry) -> None:
        """Queue an entry by its wait, unless its key is as early or earlier."""
        wait = self.wait_of(entry)
        if entry.lane_key is None or wait < entry.lane_key[:2]:
            entry.lane_key = (*wait, entry)
            heappush(self._waits.setdefault(entry.pipeline, []), entry.lane_key)

    def place_of(self, entry: Entry) -> Place | None:
        """The place of an entry; None: it has none, or more is to be loaded first."""
        if not entry.waiting:
            return None
        member, head = entry.member, entry.head
        if head is None or entry.oldest is None:
            if not member.is_account:
                self.needs_documents.add(entry)
            return None
        if self.is_fair:
            return member.share.place
        return (head[0], head[1], head[1]) if member.may_start_more else None

    def wait_of(self, entry: Entry) -> tuple[float, int]:
        """Since when an entry waits for a start, and what decides between equals."""
        assert entry.oldest is not None  # noqa: S101 (it has a place)
        number, submitted_at = entry.oldest
        place = entry.member.share.place
        tie = place[2] if self.is_fair and place is not None else number
        return waits_since(entry.member.last_started_at, submitted_at), tie

    # --- who is next ---

    def choose(
        self,
        number: int,
        now: float,
        pipelines: Sequence[str] | None = None,
        may_start: MayStart | None = None,
    ) -> list[Start]:
        """Start the next documents, at most so many; fewer where more is to be loaded first.

        A document that `may_start` refuses ends the choice.
        """
        starts: list[Start] = []
        while len(starts) < number and not self.needs_documents:
            open_ = self._open(self._places if pipelines is None else pipelines, now)
            entry, through_lane = self._next(open_, now)
            if entry is None:
                break
            start = self._start(entry, now, open_, may_start, through_lane=through_lane)
            if start is None:
                break
            starts.append(start)
        return starts

    def opens_at(self, now: float, pipelines: Sequence[str] | None = None) -> float:
        """When the first pipeline that only waits for a token gets one; inf: none does."""
        times = [
            quota.opens_at(now)
            for name, quota in self.state.quotas.items()
            if (pipelines is None or name in pipelines) and not quota.has_token(now)
        ]
        return min(times, default=inf)

    def _open(self, pipelines: Iterable[str], now: float) -> list[str]:
        """The pipelines whose quotas let a document start now."""
        quotas = self.state.quotas
        return [name for name in pipelines if name not in quotas or quotas[name].is_open(now)]

    def _quota(self, pipeline: str) -> Quota:
        quota = self.state.quotas.get(pipeline)
        if quota is None:
            quota = self.state.quotas[pipeline] = Quota()
        return quota

    def _next(self, pipelines: Sequence[str], now: float) -> tuple[Entry | None, bool]:
        """The entry that goes next, and whether through the overdue lane."""
        if self.lane is not None and self.lane.is_open(self.state.credit):
            overdue = self._most_overdue(pipelines, now - self.lane.after)
            if overdue is not None or self.needs_entries:
                return overdue, True
        best: PlaceKey | None = None
        for pipeline in pipelines:
            first = self._first(pipeline)
            bound = self.loaded_up_to.get(pipeline)
            if bound is not None and (first is None or first[:3] > bound):
                self.needs_entries.add(pipeline)
            elif first is not None and (best is None or first < best):
                best = first
        if self.needs_entries or best is None:
            return None, False
        return best[3], False

    def _first(self, pipeline: str) -> PlaceKey | None:
        heap = self._places.get(pipeline, [])
        while heap:
            if heap[0][3].queued_as is heap[0]:
                return heap[0]
            heappop(heap)
        return None

    def _most_overdue(self, pipelines: Sequence[str], before: float) -> Entry | None:
        """The entry that has waited longest, if its wait began before this time."""
        best: WaitKey | None = None
        for pipeline in pipelines:
            longest = self._longest_waiting(pipeline, before)
            bound = self.overdue_loaded_up_to.get(pipeline)
            if bound is not None and bound[0] < before and (longest is None or longest[:2] > bound):
                self.needs_entries.add(pipeline)
            elif longest is not None and (best is None or longest < best):
                best = longest
        return None if best is None or self.needs_entries else best[2]

    def _longest_waiting(self, pipeline: str, before: float) -> WaitKey | None:
        """Keys may be too early: the entry lost its place, or a start made it wait anew."""
        heap = self._waits.get(pipeline, [])
        while heap and heap[0][0] < before:
            key = heap[0]
            entry = key[2]
            if entry.lane_key is key and entry.place is not None:
                wait = self.wait_of(entry)
                if wait == key[:2]:
                    return key
                entry.lane_key = (*wait, entry)
                heapreplace(heap, entry.lane_key)
                continue
            if entry.lane_key is key:
                entry.lane_key = None
            heappop(heap)
        return None

    def first_entries(self, number: int) -> list[Entry]:
        """About so many entries with the best places, whose documents are likely to be needed."""
        entries: list[Entry] = []
        for heap in self._places.values():
            entries += [key[3] for key in nsmallest(number, heap) if key[3].queued_as is key]
        return [
            inner
            for entry in entries
            for inner in (
                chain.from_iterable(each.entries.values() for each in entry.member.inner.values())
                if entry.member.is_account
                else (entry,)
            )
            if inner.waiting
        ]

    def longest_wait(self, now: float) -> tuple[float, Entry] | None:
        """Since when somebody waits for a start at the longest, of the entries that are loaded.

        Those that a quota holds back do not count.
        """
        waits = [
            (max(self.wait_of(entry)[0], entry.member.resumed_at or 0.0), entry)
            for pipeline in self._open(self._waits, now)
            for _, _, entry in self._waits[pipeline][:1]
            if entry.place is not None
        ]
        return min(waits, default=None, key=itemgetter(0))

    # --- a start ---

    def _start(
        self,
        entry: Entry,
        now: float,
        pipelines: Sequence[str],
        may_start: MayStart | None,
        *,
        through_lane: bool,
    ) -> Start | None:
        payer = entry.member
        if self.is_fair:
            inner = self._inner_member(payer, pipelines) if payer.is_account else payer
            own = self._fair_entry(inner, pipelines)
            document = holder = own.best()
        else:
            own = entry
            document, holder = self._classic_document(entry, through_lane=through_lane)
        if document is None:
            if through_lane and not self.is_fair:
                own.oldest = None
            self.needs_documents.add(own)
            return None
        if may_start is not None and not may_start(document):
            return None
        if holder is not None and holder is not document:
            own.swap(holder, document)
        own.take(document)
        member = own.member
        member.processing += 1
        member.last_started_at = payer.last_started_at = now
        self.changed.add(member)
        charge = inner_charge = None
        if self.is_fair:
            charge, inner_charge = self._charge(
                member, payer, document.estimate, now, through_lane=through_lane
            )
        else:
            member.share.queued -= document.estimate
        self._queue_entries(payer)
        self._quota(own.pipeline).start(now)
        if self.lane is not None:
            credit = self.lane.after_claim(self.state.credit, through_lane=through_lane)
            self.state.credit = credit
        return Start(document, member.id, through_lane, payer.id, charge, inner_charge)

    def _classic_document(
        self, entry: Entry, *, through_lane: bool
    ) -> tuple[QueuedDocument | None, QueuedDocument | None]:
        """The document that goes, and the holder of the slot that it uses up."""
        if through_lane:
            return entry.oldest_document(), entry.oldest_slot() if entry.has_ahead else None
        best = entry.best()
        return None if best is None else entry.first_in_turn(best), best

    def _charge(
        self, member: Member, payer: Member, estimate: float, now: float, *, through_lane: bool
    ) -> tuple[Charge, Charge | None]:
        """Charge a start to the account and inside of it, and place both anew."""
        inner = None
        if payer is not member:
            self.changed.add(payer)
            clock = payer.inner_clock or self.clock
            inner = clock.claim(member.share, estimate, now, through_lane=False)
            clock.place_anew(member.share, now, may_run=self._may_run(member))
            self._sum_up(payer)
        charge = self.clock.claim(payer.share, estimate, now, through_lane=through_lane)
        self.clock.place_anew(payer.share, now, may_run=self._may_run(payer))
        return charge, inner

    def _inner_member(self, account: Member, pipelines: Sequence[str]) -> Member:
        """The customer of a shared account that goes next."""
        candidates = (
            (member.share.place, member)
            for member in account.inner.values()
            if member.share.place is not None
            and any(member.entries[name].waiting for name in pipelines if name in member.entries)
        )
        return min(candidates, key=lambda each: each[0])[1]

    def _fair_entry(self, member: Member, pipelines: Sequence[str]) -> Entry:
        """Of the pipelines that are open, the one with the member's next document."""
        entries = member.entries
        if len(entries) == 1:
            return next(iter(entries.values()))
        candidates = [entries[name] for name in pipelines if name in entries]
        return min((each for each in candidates if each.waiting), key=lambda each: each.head or ())

    # --- what is to be saved ---

    def save_state(self) -> QueueState:
        """The state of the queue as a whole, brought up to what was done."""
        self.state.clock, self.state.next_ticket = self.clock.value, self.clock.tickets[0]
        return self.state

    def all_entries(self) -> Iterator[Entry]:
        return chain.from_iterable(member.entries.values() for member in self.members.values())


def fading(work: float, seconds: float, interval: float) -> float:
    """Work done that counts less the longer ago it was."""
    if seconds <= 0:
        return work
    return work * exp(-seconds / interval) if interval else 0.0
