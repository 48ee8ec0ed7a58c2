"""The queue: which document is next. Pure, without clock and I/O; stores and simulator share it.

`fold` applies events; `choose` takes the next documents by policy, overdue lane, caps and quotas.

- A *member* is a customer, or under fair an account that several customers share. Customers of a
  shared account compete inside it, by the same rule.
- An *entry* is a member's waiting documents of one pipeline. It has a place while its member may
  start documents. The lowest place goes first: under classic the key of the entry's best document,
  under fair the place of its member.
- A document's *slot* is its place among the documents of its entry: under classic (priority,
  arrival), under fair (not urgent, arrival). Under classic an urgent document swaps slots with the
  customer's best one, so that nobody else is affected.

The simulator holds the whole queue in memory. A store loads a part of it: `needs_documents` and
`needs_entries` name what must be loaded before `choose` can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace, nsmallest
from itertools import chain
from math import exp, inf
from operator import attrgetter, itemgetter
from typing import ClassVar, Literal, NamedTuple

from fairlead.policy.fair import Charge, FairClock, FairRule, Place
from fairlead.policy.overdue_lane import OverdueLane, waits_since
from fairlead.policy.queue_entry import Entry, Member, PlaceKey, QueuedDocument, Slot, WaitKey
from fairlead.policy.queue_events import (
    Arrived,
    Deferred,
    Dropped,
    Ended,
    MemberChanged,
    QueueEvent,
    Reset,
    Served,
)
from fairlead.policy.quotas import Quota

PolicyName = Literal["classic", "fair"]
MayStart = Callable[[QueuedDocument], bool]
_waiting = attrgetter("waiting")


class Start(NamedTuple):
    """A document that was chosen, with the charges that its end corrects.

    `payer` is the member that was charged; `inner` is the charge to its customer inside a shared
    account. None: nothing was charged, as under classic.
    """

    document: QueuedDocument
    customer: int
    through_lane: bool
    payer: int
    charge: Charge | None
    inner: Charge | None


@dataclass(slots=True)
class QueueState:
    """The state of the queue as a whole."""

    policy: PolicyName = "classic"
    clock: float = 0.0
    credit: int = 0
    next_ticket: int = 0
    quotas: dict[str, Quota] = field(default_factory=dict)
    """The quotas of all pipelines that ever had documents."""


class Queue:
    """The queue, or the part of it that was loaded. The time is always an argument."""

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
        """Pipelines whose next entry is not among those that were loaded."""
        self.loaded_up_to: dict[str, Place] = {}
        """The last place that was loaded of each pipeline; all were, if it is missing."""
        self.overdue_loaded_up_to: dict[str, tuple[float, int]] = {}
        self.clock = FairClock(rule, state.clock, [state.next_ticket])
        self._places: dict[str, list[PlaceKey]] = {}
        self._waits: dict[str, list[WaitKey]] = {}

    # --- loading ---

    def member(self, id_: int) -> Member:
        """The member of this id; a new one if it is unknown."""
        member = self.members.get(id_)
        if member is None:
            member = self.members[id_] = Member(id_)
        return member

    def add(self, member: Member) -> None:
        """Add a member as it was stored; its entries are queued by their places.

        Customers of a shared account may be added before the account.
        """
        earlier = self.members.get(member.id)
        if earlier is not None:
            member.inner = earlier.inner
        self.members[member.id] = member
        if self.is_fair and member.account is not None:
            self._shared_account(member.account).inner[member.id] = member

    def queue_loaded(self) -> None:
        """Queue the entries of all members that were added. Call it once, before `fold`."""
        for member in self.members.values():
            if self._account_of(member) is None:
                self._queue_entries(member)

    def place_in_order(self, members: Iterable[int], now: float) -> None:
        """Give places in this order to members that may start documents, after a policy switch."""
        for id_ in members:
            member = self.member(id_)
            if self._account_of(member) is None:
                self._queue_entries(member)
            if member.share.place is None:
                self._settle(member, now)

    def sum_up(self, account: int) -> None:
        """Derive the entries of a shared account from those of its customers."""
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

    # --- events ---

    def fold(self, events: Iterable[QueueEvent]) -> None:
        """Apply the events."""
        for event in events:
            self._FOLDS[type(event)](self, event)

    def count(self, customer: int, now: float) -> int:
        """The fair rule's count of a document that this customer submits now."""
        member = self.member(customer)
        return self._clock_of(member).count(member.share, now)

    def drop(self, document: QueuedDocument, now: float) -> None:
        """Remove a waiting document from a queue that is entirely in memory."""
        document.is_waiting = False
        values = (document.customer, document.pipeline, 1, document.estimate)
        self._dropped(Dropped(now, *values))

    def push(self, document: QueuedDocument, now: float) -> None:
        """Add a document to a queue that is entirely in memory."""
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
        """Add waiting documents; only the first, the best and the oldest move their entry."""
        self._quota(entry.pipeline)
        member.share.queued += estimates
        account = self._account_of(member)
        if oldest[1] < now:  # it was not in the queue since then
            self._keep_wait(account or member, entry.pipeline, now)
        if account is not None:
            account.share.queued += estimates
        if entry.add(documents, head, oldest) or account is not None:
            self._settle(member, now)
        else:
            self.changed.add(member)

    def _keep_wait(self, member: Member, pipeline: str, now: float) -> None:
        """A document that returns does not make its member's wait longer than it was."""
        entry = member.entries.get(pipeline)
        if entry is None or entry.place is None or entry.oldest is None:
            member.resumed_at = now
        else:
            member.resumed_at = self.could_start_since(entry)

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
            entry.update_front()
        member.share.queued -= event.estimates
        account = self._account_of(member)
        if account is not None:
            account.share.queued -= event.estimates
        self._settle(member, event.at)

    def _ended(self, event: Ended) -> None:
        member = self.member(event.customer)
        could_start = member.may_start_more
        member.processing -= 1
        member.delayed += event.is_delayed
        if not could_start and member.may_start_more:
            member.resumed_at = event.at
        self._quota(event.pipeline).end(event.at)
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
        could_start = member.may_start_more
        member.is_paused, member.cap = event.is_paused, event.cap
        if not could_start and member.may_start_more:
            member.resumed_at = event.at
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

    def _served(self, event: Served) -> None:
        quota = self.state.quotas.get(event.pipeline)
        if quota is not None:  # it had documents
            quota.reopen(event.at)

    _FOLDS: ClassVar[dict[type, Callable[..., None]]] = {
        Arrived: _arrived,
        Deferred: _deferred,
        Dropped: _dropped,
        Ended: _ended,
        MemberChanged: _member_changed,
        Reset: _reset,
        Served: _served,
    }

    def _move(self, member: Member, to: int | None, now: float) -> None:
        """Move a customer from its account to another one; it keeps its own debt."""
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
        """The shared account inside which a member competes; None: it competes with all members."""
        if member.account is None or not self.is_fair:
            return None
        return self.member(member.account)

    def _clock_of(self, member: Member) -> FairClock:
        account = self._account_of(member)
        return self.clock if account is None else account.inner_clock or self.clock

    def _settle(self, member: Member, now: float) -> None:
        """Give a member that may start documents a place, and take it from one that may not."""
        self.changed.add(member)
        account = None
        if self.is_fair:
            account = self._account_of(member)
            share = member.share
            if self._may_run(member):
                if share.place is None:
                    self._clock_of(member).enter(share, now)
                    if member.is_account:
                        member.resumed_at = now
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
        """Derive a shared account's last start and entries from its customers that may run."""
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
        """The place of an entry; None: it has none, or more must be loaded first."""
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
        """Since when an entry waits for a start, and a tie-breaker."""
        assert entry.oldest is not None  # noqa: S101 (it has a place)
        number, submitted_at = entry.oldest
        place = entry.member.share.place
        tie = place[2] if self.is_fair and place is not None else number
        return waits_since(entry.member.last_started_at, submitted_at), tie

    def could_start_since(self, entry: Entry) -> float:
        """Since when a placed entry waits and could have started.

        A pause, a cap, a quota and a queue without workers end the wait.
        """
        quota = self.state.quotas.get(entry.pipeline)
        reopened_at = None if quota is None else quota.reopened_at
        return max(self.wait_of(entry)[0], entry.member.resumed_at or 0.0, reopened_at or 0.0)

    # --- choosing ---

    def choose(
        self,
        number: int,
        now: float,
        pipelines: Sequence[str] | None = None,
        may_start: MayStart | None = None,
    ) -> list[Start]:
        """Start the next documents, at most `number`; fewer if more must be loaded first.

        A document that `may_start` refuses ends the choice.
        """
        starts: list[Start] = []
        while len(starts) < number and not self.needs_documents:
            open_ = self.open_pipelines(self._places if pipelines is None else pipelines, now)
            entry, through_lane = self._next(open_, now)
            if entry is None:
                break
            start = self._start(entry, now, open_, may_start, through_lane=through_lane)
            if start is None:
                break
            starts.append(start)
        return starts

    def opens_at(self, now: float, pipelines: Sequence[str] | None = None) -> float:
        """When the first pipeline without a token gets one; inf: all have one."""
        times = [
            quota.opens_at(now)
            for name, quota in self.state.quotas.items()
            if (pipelines is None or name in pipelines) and not quota.has_token(now)
        ]
        return min(times, default=inf)

    def open_pipelines(self, pipelines: Iterable[str], now: float) -> list[str]:
        """The pipelines whose quotas let a document start now."""
        quotas = self.state.quotas
        return [name for name in pipelines if name not in quotas or quotas[name].is_open(now)]

    def _quota(self, pipeline: str) -> Quota:
        quota = self.state.quotas.get(pipeline)
        if quota is None:
            quota = self.state.quotas[pipeline] = Quota()
        return quota

    def _next(self, pipelines: Sequence[str], now: float) -> tuple[Entry | None, bool]:
        """The entry that goes next, and whether it goes through the overdue lane."""
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
        """The entry with the longest wait, if that began before this time."""
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
        """The first valid key; keys are too early if a start or a lost place ended the wait."""
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
        """About `number` entries with the best places: their documents are likely to be needed."""
        entries: list[Entry] = []
        for heap in self._places.values():
            for *_, entry in (key for key in nsmallest(number, heap) if key[3].queued_as is key):
                if entry.member.is_account:
                    for customer in entry.member.inner.values():
                        entries += customer.entries.values()
                else:
                    entries.append(entry)
        return [entry for entry in entries if entry.waiting]

    def longest_untold_wait(
        self, now: float, before: float, pipelines: Sequence[str] | None = None
    ) -> tuple[float, Entry] | None:
        """The loaded entry that could have started longest ago, and since when.

        Only waits that began before a time, in queues whose quotas let a document start now, and
        that were not told of.
        """
        waits = [
            (self.could_start_since(entry), entry)
            for pipeline in self.open_pipelines(
                self._waits if pipelines is None else pipelines, now
            )
            for since, _, entry in self._waits.get(pipeline, ())
            if since < before and entry.place is not None and entry.oldest is not None
        ]
        untold = (wait for wait in waits if wait[0] < before and wait[0] != wait[1].member.told_of)
        return min(untold, default=None, key=itemgetter(0))

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
        """The document that starts, and the holder of the slot that it uses up."""
        if through_lane:
            return entry.oldest_document(), entry.oldest_slot() if entry.has_ahead else None
        best = entry.best()
        return None if best is None else entry.first_in_turn(best), best

    def _charge(
        self, member: Member, payer: Member, estimate: float, now: float, *, through_lane: bool
    ) -> tuple[Charge, Charge | None]:
        """Charge a start to the account, and to its customer inside; place both anew."""
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
            member
            for member in account.inner.values()
            if member.share.place is not None
            and any(member.entries[name].waiting for name in pipelines if name in member.entries)
        )
        return min(candidates, key=lambda member: member.share.place or ())

    def _fair_entry(self, member: Member, pipelines: Sequence[str]) -> Entry:
        """The entry with the member's next document, among the open pipelines."""
        entries = member.entries
        if len(entries) == 1:
            return next(iter(entries.values()))
        candidates = (entries[name] for name in pipelines if name in entries)
        waiting = (entry for entry in candidates if entry.waiting)
        return min(waiting, key=lambda entry: entry.head or ())

    # --- saving ---

    def save_state(self) -> QueueState:
        """The current state of the queue as a whole."""
        self.state.clock, self.state.next_ticket = self.clock.value, self.clock.tickets[0]
        return self.state

    def all_entries(self) -> Iterator[Entry]:
        return chain.from_iterable(member.entries.values() for member in self.members.values())


def fading(work: float, seconds: float, interval: float) -> float:
    """Work after `seconds`: it counts less the longer ago it was done."""
    if seconds <= 0:
        return work
    return work * exp(-seconds / interval) if interval else 0.0
