"""Loads the part of the queue that a claim or a question needs, and saves what changed of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from fairlead.policy.costs import CostBucket, LearnedCosts, learn
from fairlead.policy.fair import FairClock, FairShare
from fairlead.policy.queue import PolicyName, Queue, QueueState
from fairlead.policy.queue_entry import Entry, Member, QueuedDocument
from fairlead.policy.queue_events import Learned, QueueEvent, Served, StoredEvent, Tallied
from fairlead.policy.quotas import Quota
from fairlead.policy.rules import Rules
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.waiting_rows import Waiting

FADING = 0.9995
"""One document longer than all others fades from the record over some thousand of them."""
EVENTS_AT_ONCE = 2000
_ALL = 1_000_000
_NONE_BY_AGE = -1
"""The last number in order of age where none were loaded."""


def _columns(*names: str) -> Callable[[tuple[Any, ...]], Any]:
    """Gets these columns of a row of `waiting`, faster than a `Waiting` is made for each row."""
    return itemgetter(*map(Waiting._fields.index, names))


_entry_of = _columns("customer", "pipeline")
_slot_of = _columns("slot", "slot_seq")
_number_of = _columns("document")
_turn_of = _columns("urgent", "priority", "document")

_encode = msgspec.json.Encoder().encode
decode_events = msgspec.json.Decoder(list[StoredEvent]).decode
_QUOTAS = msgspec.json.Decoder(dict[str, Quota])


def encode_events(events: Sequence[StoredEvent]) -> str:
    """The body of one row of `queue_events`."""
    return _encode(events).decode()


class StoredState(NamedTuple):
    """The row of the queue as a whole."""

    version: int
    policy: PolicyName
    clock: float
    credit: int
    next_ticket: int
    quotas: str
    claims: int
    lane_claims: int
    longest: float


class LoadedQueue:
    """A queue in memory with the rows that it was made of."""

    def __init__(self, connection: Connection, rules: Rules, events: int = 1_000_000) -> None:
        """Ask for the state, and for at most so many events that are not folded."""
        self._connection = connection
        self._rules = rules
        self._asked_state = connection.execute(sql("queue_state"))
        self._asked_events = connection.execute(sql("unfolded_events"), (events,))
        self.event_ids: list[int] = []
        self.events: list[StoredEvent] = []
        self._loaded_members: dict[int, tuple[Any, ...]] = {}
        self._loaded_entries: dict[tuple[int, str], tuple[Any, ...]] = {}
        self._documents: dict[int, QueuedDocument] = {}
        self._asked_documents: dict[tuple[int, str], int] = {}
        """How many of the first documents of entries were asked for, and not yet read."""
        self._first_documents: Iterable[tuple[Any, ...]] = ()
        self._rows: dict[int, tuple[Any, ...]] = {}
        """The rows of `waiting` that were loaded, by document; many more than are claimed."""

    # --- loading ---

    def read(self) -> LoadedQueue:
        """Read the state and the events, before anything else is loaded."""
        [row] = self._asked_state.fetchall()
        self.stored = stored = StoredState(*row)
        quotas = _QUOTAS.decode(stored.quotas)
        state = QueueState(stored.policy, stored.clock, stored.credit, stored.next_ticket, quotas)
        self.queue = Queue(self._rules.fair(), self._rules.lane, state)
        self.longest = stored.longest
        for id_, body in self._asked_events.fetchall():
            self.event_ids.append(id_)
            self.events += decode_events(body)
        return self

    @property
    def pipelines(self) -> list[str]:
        """Those that ever had documents."""
        return list(self.queue.state.quotas)

    @property
    def has_more_events(self) -> bool:
        return len(self.event_ids) >= EVENTS_AT_ONCE

    def touched(self) -> set[int]:
        """The members that the events concern."""
        members: set[int] = set()
        for event in self.events:
            if not isinstance(event, Tallied | Learned | Served):
                members.add(event.customer)
                for other in (getattr(event, "payer", None), getattr(event, "account", None)):
                    if other is not None:
                        members.add(other)
        return members

    def load_members(self, ids: Collection[int]) -> None:
        """Load members with their entries, and the shared accounts with all their customers."""
        missing = [id_ for id_ in ids if id_ not in self._loaded_members]
        if not missing:
            return
        self._load_rows(missing)
        accounts = {self._loaded_members[id_][1] for id_ in missing if id_ in self._loaded_members}
        accounts |= {id_ for id_ in missing if id_ < 0}
        accounts.discard(None)
        if accounts:
            values = (self._connection.array(sorted(accounts)),)
            found = self._connection.execute(sql("ids_of_accounts"), values)
            inside = {row[0] for row in found} - self._loaded_members.keys()
            self._load_rows(sorted(inside))

    def load_all(self) -> None:
        """Load every member."""
        members = self._connection.execute(sql("all_members"))
        entries = self._connection.execute(sql("all_entries"))
        self._add_rows(members, entries)

    def _load_rows(self, ids: Sequence[int]) -> None:
        """Members and their entries. Two statements: a join may be planned to read all entries."""
        values = (self._connection.array(ids),)
        members = self._connection.execute(sql("members"), values)
        entries = self._connection.execute(sql("entries"), values)
        self._add_rows(members, entries)

    def load_best(self, pipelines: Iterable[str], width: int) -> None:
        """Load the entries with the best places, and those of the same members."""
        for pipeline in pipelines:
            rows = self._connection.execute(sql("best_entries"), (pipeline, width))
            self.load_members(self.note_best(pipeline, rows, width))

    def load_overdue(self, pipelines: Iterable[str], before: float, number: int) -> None:
        """Load the entries that have waited longest, of those that are overdue."""
        for pipeline in pipelines:
            values = (pipeline, before, number)
            rows = self._connection.execute(sql("overdue_entries"), values)
            self.load_members(self.note_overdue(pipeline, rows, number))

    def note_best(self, pipeline: str, rows: Iterable[tuple[Any, ...]], width: int) -> list[int]:
        """The members of the best entries, best first, of which so many were asked for."""
        entries = list(rows)
        if len(entries) == width:
            self.queue.loaded_up_to[pipeline] = entries[-1][1:4]
        return [row[0] for row in entries]

    def note_overdue(self, pipeline: str, rows: Iterable[tuple[Any, ...]], number: int) -> set[int]:
        """The members of the most overdue entries, of which so many were asked for."""
        entries = list(rows)
        if len(entries) == number:
            self.queue.overdue_loaded_up_to[pipeline] = entries[-1][1:3]
        return {row[0] for row in entries}

    def ask_documents(self, members: Iterable[int], pipeline: str, depth: int) -> None:
        """Ask for the first documents of entries that are likely to be chosen from.

        They come with the next answer of a server. Where an answer costs nothing it does not pay.
        """
        if self._connection.is_remote:
            keys = [(id_, pipeline) for id_ in members if id_ > 0]
            self._asked_documents = dict.fromkeys(keys, depth)
            rows = [(*key, depth) for key in keys]
            self._first_documents = self._connection.query_many(sql("waiting_by_slot"), rows)

    def forget_asked_documents(self) -> None:
        """Forget what was asked for: there may be others since."""
        self._asked_documents, self._first_documents = {}, ()

    def load_documents(self, entries: Iterable[Entry], depth: int) -> None:
        """Load the first documents of entries, in each of their orders.

        Those that were chosen before are still in the database, and are left out.
        """
        entries = list(entries)
        taken = Counter(
            (document.customer, document.pipeline)
            for document in self._documents.values()
            if not document.is_waiting
        )
        wanted = {
            (entry.member.id, entry.pipeline): depth + taken[entry.member.id, entry.pipeline]
            for entry in entries
        }
        by_age = [entry for entry in entries if entry.oldest is None]
        with_ahead = [entry for entry in entries if entry.has_ahead and not self.queue.is_fair]
        slots = self._read_slots(entries, wanted)
        for entry in by_age:
            if entry.has_ahead:  # the lane looks for the slot that came first, which any may hold
                wanted[entry.member.id, entry.pipeline] += _ALL
        ahead = self._read_order("waiting_ahead", with_ahead, wanted)
        ages = self._read_order("waiting_by_age", by_age, wanted)
        for entry in entries:
            key = (entry.member.id, entry.pipeline)
            rows = {_number_of(row): row for row in chain(slots[key], ages[key], ahead[key])}
            documents = [self._document(row) for row in rows.values()]
            last_slot = last_age = last_turn = None
            if len(slots[key]) == wanted[key] % _ALL:
                last_slot = max(map(_slot_of, slots[key]))
                last_age = max(map(_number_of, ages[key]), default=_NONE_BY_AGE)
            if len(ahead[key]) == wanted[key]:
                turns = map(_turn_of, ahead[key])
                last_turn = max(
                    (not urgent, priority, number) for urgent, priority, number in turns
                )
            entry.has_ahead = bool(ahead[key]) or (self.queue.is_fair and entry.has_ahead)
            waiting = [document for document in documents if document.is_waiting]
            entry.load(waiting, last_slot, last_age, last_turn)

    def load_unknown(self, depth: int) -> None:
        """Load documents of entries whose place or next document is not known."""
        queue = self.queue
        while queue.needs_documents:
            entries = list(queue.needs_documents)
            queue.needs_documents.clear()
            self.load_documents(entries, depth)
            for entry in entries:
                queue.settle_loaded(entry)

    def forget_documents(self) -> None:
        """Forget the documents that were loaded: their rows were rewritten."""
        self._documents.clear()
        self._rows.clear()

    def _read_slots(
        self, entries: Sequence[Entry], wanted: dict[tuple[int, str], int]
    ) -> defaultdict[tuple[int, str], list[tuple[Any, ...]]]:
        """The first rows of each entry by slot; those that were asked for are there already."""
        asked, self._asked_documents = self._asked_documents, {}
        first = _by_entry(self._first_documents)
        self._first_documents = ()
        missing = []
        for entry in entries:
            key = (entry.member.id, entry.pipeline)
            if asked.get(key, 0) < wanted[key]:
                missing.append(entry)
                first.pop(key, None)
            else:
                wanted[key] = asked[key]
        first.update(self._read_order("waiting_by_slot", missing, wanted))
        return first

    def _read_order(
        self, order: str, entries: Iterable[Entry], wanted: Mapping[tuple[int, str], int]
    ) -> defaultdict[tuple[int, str], list[tuple[Any, ...]]]:
        """The first rows of each entry in one order."""
        keys = [(entry.member.id, entry.pipeline) for entry in entries]
        values = [(*key, wanted[key]) for key in keys]
        return _by_entry(self._connection.query_many(sql(order), values))

    def row(self, number: int) -> Waiting:
        """The row of a document that was loaded."""
        return Waiting._make(self._rows[number])

    def _document(self, values: tuple[Any, ...]) -> QueuedDocument:
        number = _number_of(values)
        known = self._documents.get(number)
        if known is not None:
            return known
        customer, pipeline, slot, slot_seq, _, priority, urgent, displaced, estimate, at = values[
            :10
        ]
        self._rows[number] = values
        document = self._documents[number] = QueuedDocument(
            number,
            customer,
            (slot, slot_seq),
            priority=priority,
            urgent=bool(urgent),
            estimate=estimate,
            submitted_at=at,
            pipeline=pipeline,
            is_displaced=bool(displaced),
        )
        return document

    def _add_rows(
        self, members: Iterable[tuple[Any, ...]], entries: Iterable[tuple[Any, ...]]
    ) -> None:
        """Add members with their entries."""
        added = {row[0]: self._member(row) for row in members}
        for id_, *row in entries:
            self._entry(added[id_], tuple(row))
        for member in added.values():
            self.queue.add(member)

    def _member(self, row: tuple[Any, ...]) -> Member:
        (
            id_, account, paused, cap, processing, delayed, last_started_at, weight, interval,
            debt, debt_at, tag, queued, tagged, work, work_at, inner_clock, resumed_at, told_of,
        ) = row  # fmt: skip
        self._loaded_members[id_] = row
        share = FairShare(weight, interval, debt, debt_at, tag, queued, tagged)
        member = Member(
            id_, account, id_ < 0, bool(paused), cap, processing, delayed, last_started_at, share,
            work, work_at, resumed_at=resumed_at, told_of=told_of,
        )  # fmt: skip
        if inner_clock is not None:
            queue = self.queue
            member.inner_clock = FairClock(queue.rule, inner_clock, queue.clock.tickets)
        return member

    def _entry(self, member: Member, row: tuple[Any, ...]) -> None:
        pipeline, waiting, head, head_seq, oldest_seq, oldest_at, has_ahead, *place = row
        class_, rank, ticket = place[:3]
        self._loaded_entries[member.id, pipeline] = row
        entry = member.entry(pipeline)
        entry.waiting, entry.has_ahead = waiting, bool(has_ahead)
        entry.head = None if head is None else (head, head_seq)
        entry.oldest = None if oldest_seq is None else (oldest_seq, oldest_at)
        if ticket is not None and self.queue.is_fair:
            member.share.place = (class_, rank, ticket)

    # --- folding ---

    def fold(self, only: Collection[int] | None = None) -> None:
        """Bring the queue up to the events; of those of members, `only` those of these."""
        self.queue.queue_loaded()
        self.queue.fold(
            event
            for event in self.events
            if not isinstance(event, Tallied | Learned)
            and (only is None or isinstance(event, Served) or event.customer in only)
        )

    # --- saving ---

    def save(self, claims: int = 0, lane_claims: int = 0) -> None:
        """Write what changed, in a transaction that no other claim overtakes."""
        run = self._connection
        state, stored = self.queue.save_state(), self.stored
        self._fold_costs()
        oldest = self._ask_oldest()
        run.execute(
            sql("save_queue_state"),
            (
                state.policy,
                state.clock,
                state.credit,
                state.next_ticket,
                _encode(state.quotas).decode(),
                stored.claims + claims,
                stored.lane_claims + lane_claims,
                self.longest,
            ),
        )
        if self.event_ids:
            run.execute(sql("delete_queue_events"), (run.array(self.event_ids),))
        self._save_tallies()
        self._note_oldest(oldest)
        self._save_members()

    def _ask_oldest(self) -> Iterable[tuple[Any, ...]]:
        """Ask for the oldest documents of entries whose oldest one was started."""
        stale = [
            (member.id, entry.pipeline)
            for member in self.queue.changed
            for entry in member.entries.values()
            if entry.is_oldest_stale and entry.waiting and not member.is_account
        ]
        return self._connection.query_many(sql("oldest_waiting"), stale)

    def _note_oldest(self, oldest: Iterable[tuple[Any, ...]]) -> None:
        accounts = set()
        for customer, pipeline, number, submitted_at in oldest:
            member = self.queue.members[customer]
            entry = member.entries[pipeline]
            entry.oldest, entry.is_oldest_stale = (number, submitted_at), False
            if member.account is not None:
                accounts.add(member.account)
        for account in accounts:
            self.queue.sum_up(account)

    def _save_members(self) -> None:
        members, entries = [], []
        for member in sorted(self.queue.changed, key=lambda each: each.id):
            row = _member_row(member)
            if row != self._loaded_members.get(member.id):
                members.append(row)
            for entry in member.entries.values():
                values = self._entry_row(entry)
                if values != self._loaded_entries.get((member.id, entry.pipeline)):
                    entries.append((member.id, *values))
        self._connection.executemany(sql("save_member"), members)
        self._connection.executemany(sql("save_entry"), entries)

    def _entry_row(self, entry: Entry) -> tuple[Any, ...]:
        place = self.queue.place_of(entry)
        is_outer = not (self.queue.is_fair and entry.member.account is not None)
        wait: tuple[Any, Any] = (None, None)
        if place is not None and is_outer:
            wait = self.queue.wait_of(entry)
        head = entry.head if entry.waiting else None
        oldest = entry.oldest if entry.waiting else None
        return (
            entry.pipeline,
            entry.waiting,
            *(head or (None, None)),
            *(oldest or (None, None)),
            int(entry.has_ahead),
            *(place or (None, None, None)),
            *wait,
        )

    def moved_slots(self) -> Iterator[tuple[Any, ...]]:
        """Documents that still wait and swapped slots: key, old slot, new slot."""
        for number, document in self._documents.items():
            before = self.row(number)
            if document.is_waiting and before.full_slot != document.slot:
                yield (*before.key, *document.slot)

    def _save_tallies(self) -> None:
        tallies: defaultdict[tuple[str, int], int] = defaultdict(int)
        for event in self.events:
            if isinstance(event, Tallied):
                tallies[event.state, event.priority] += event.documents
        rows = [(*key, number) for key, number in sorted(tallies.items()) if number]
        self._connection.executemany(sql("save_tally"), rows)

    def count_starts(self, priorities: Iterable[int]) -> None:
        """Count the documents that this claim starts, by priority."""
        for priority, number in Counter(priorities).items():
            self.events.append(Tallied("waiting", priority, -number))
            self.events.append(Tallied("processing", priority, number))

    def _fold_costs(self) -> None:
        learned = [event for event in self.events if isinstance(event, Learned)]
        if not learned:
            return
        costs = CostTable(self._connection)
        for event in learned:
            costs.learn(event)
            for seconds in event.seconds:
                self.longest = max(seconds, self.longest * FADING)
        costs.save()


class CostTable:
    """Learned processing times, read when they are needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[CostBucket, LearnedCosts | None] = {}

    def exact(self, bucket: CostBucket) -> LearnedCosts | None:
        if bucket not in self._known:
            row = self._connection.execute(sql("cost_row"), bucket).fetchone()
            self._known[bucket] = None if row is None else LearnedCosts(*row)
        return self._known[bucket]

    def near(self, bucket: CostBucket) -> dict[int, LearnedCosts]:
        """The costs of this shape and unit, by doublings."""
        exact = self.exact(bucket)
        if exact is not None:
            return {bucket.doublings: exact}
        rows = self._connection.execute(sql("cost_rows"), bucket[:2])
        known = {doublings: LearnedCosts(*costs) for doublings, *costs in rows}
        for other, costs in self._known.items():
            if other[:2] == bucket[:2] and costs is not None:
                known[other.doublings] = costs
        return known

    def learn(self, event: Learned) -> None:
        bucket = CostBucket(event.shape, event.by, event.doublings)
        known = self.exact(bucket)
        for seconds in event.seconds:
            known = learn(known, seconds)
        self._known[bucket] = known

    def save(self) -> None:
        rows = [(*bucket, *costs) for bucket, costs in self._known.items() if costs is not None]
        self._connection.executemany(sql("save_cost"), sorted(rows))


def _by_entry(
    rows: Iterable[tuple[Any, ...]],
) -> defaultdict[tuple[int, str], list[tuple[Any, ...]]]:
    """Rows of `waiting` by customer and pipeline, in the order in which they were read."""
    by_entry: defaultdict[tuple[int, str], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        by_entry[_entry_of(row)].append(row)
    return by_entry


def _member_row(member: Member) -> tuple[Any, ...]:
    share = member.share
    return (
        member.id,
        member.account,
        int(member.is_paused),
        member.cap,
        member.processing,
        member.delayed,
        member.last_started_at,
        share.weight,
        share.interval,
        share.debt,
        max(0.0, share.debt_at),
        share.tag,
        share.queued,
        share.tagged,
        member.work,
        member.work_at,
        None if member.inner_clock is None else member.inner_clock.value,
        member.resumed_at,
        member.told_of,
    )


def load_folded(
    connection: Connection,
    rules: Rules,
    ids: Collection[int] | None,
    pending: Sequence[QueueEvent] = (),
    *,
    with_touched: bool = False,
) -> LoadedQueue:
    """The queue with these members, or all, brought up to now in memory; nothing is written.

    `pending`: what happened in a transaction that is not committed yet. `with_touched`: also the
    members that events concern, so that the rows of all others are up to date.
    """
    loaded = LoadedQueue(connection, rules).read()
    loaded.events += pending
    if ids is None:
        loaded.load_all()
        loaded.fold()
        return loaded
    wanted = set(ids) | (loaded.touched() if with_touched else set())
    loaded.load_members(wanted)
    loaded.fold(wanted | set(loaded.queue.members))
    return loaded
