"""Switching a live queue from one policy to the other, in one transaction."""

from __future__ import annotations

from msgspec.structs import asdict

from fairlead.model.documents import EventKind, Switched
from fairlead.policy.queue import PolicyName, Queue, QueueState
from fairlead.storage.sql import rows
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.queue_rows import LoadedQueue
from fairlead.storage.sql.transaction import Transaction


def switch(tx: Transaction, to: PolicyName) -> Switched | None:
    """Order all waiting documents by another policy; None: it is in force already."""
    loaded = LoadedQueue(tx.connection, tx.rules).read()
    before = loaded.stored.policy
    if before == to:
        return None
    loaded.load_all()
    loaded.fold()
    loaded.load_unknown(1)
    _to_fair(tx, loaded) if to == "fair" else _to_classic(tx, loaded)
    members = [member for member in loaded.queue.members.values() if not member.is_account]
    switched = Switched(
        before,
        to,
        sum(member.waiting for member in members),
        sum(member.waiting > 0 for member in members),
    )
    loaded.save()
    tx.add_event(EventKind.POLICY_SWITCHED, **asdict(switched))
    tx.write()
    return switched


def _to_fair(tx: Transaction, loaded: LoadedQueue) -> None:
    """Set debts by the classic counts, and places by the previous order of the queue."""
    old, unit = loaded.queue, tx.rules.unit
    order = sorted(
        (place, entry.member.id)
        for entry in old.all_entries()
        if (place := old.place_of(entry)) is not None
    )
    counts = _next_classic_counts(tx)
    queue = _rebuilt(tx, loaded, "fair")
    for member in queue.members.values():
        share = member.share
        share.debt, share.debt_at = 0.0, tx.now
        share.tag, share.tagged, share.place = 0.0, 0, None
    for member in list(queue.members.values()):
        if member.is_account:
            continue
        count, share = counts.get(member.id, 0), member.share
        if member.account is not None:
            account = queue.member(member.account).share
            account.queued += share.queued
            account.debt += -count * unit - share.queued / account.weight
        share.debt = max(0.0, -count * unit - share.queued / share.weight)
    for member in queue.members.values():
        member.share.debt = max(0.0, member.share.debt)
    queue.place_in_order([member for _, member in order], tx.now)


def _to_classic(tx: Transaction, loaded: LoadedQueue) -> None:
    """Set counts to those of fair; waiting documents keep priority and arrival."""
    old = loaded.queue
    customers = [member for member in old.members.values() if not member.is_account]
    with_documents = {row[0] for row in tx.connection.execute(sql("customers_with_documents"))}
    counts = [
        (old.count(member.id, tx.now), tx.now, member.id)
        for member in customers
        if member.id in with_documents
    ]
    tx.connection.executemany(sql("save_counter"), counts)
    queue = _rebuilt(tx, loaded, "classic")
    for member in queue.members.values():
        share = member.share
        share.debt, share.tag, share.tagged, share.place = 0.0, 0.0, 0, None
        if member.is_account:
            share.queued = 0.0
    queue.place_in_order([member.id for member in customers], tx.now)


def _rebuilt(tx: Transaction, loaded: LoadedQueue, to: PolicyName) -> Queue:
    """The queue of the same members under another policy, with that policy's slots."""
    tx.policy = to
    for name in ("rewrite_slots", "rewrite_delayed_slots", "rewrite_running_slots"):
        tx.connection.execute(sql(name), (to,))
    tx.connection.execute(sql("forget_slots"))
    old = loaded.queue
    state = old.save_state()
    new_state = QueueState(to, 0.0, state.credit, state.next_ticket, state.quotas)
    queue = Queue(old.rule, old.lane, new_state)
    loaded.queue = queue
    for member in old.members.values():
        member.inner_clock, member.inner = None, {}
        for entry in member.entries.values():
            entry.queued_as = entry.lane_key = entry.place = entry.oldest = None
            entry.is_oldest_stale, entry.has_ahead = False, True
            if member.is_account:
                entry.waiting = 0
    for _, member in sorted(old.members.items()):
        queue.add(member)
    queue.changed = set(queue.members.values())
    loaded.forget_documents()
    loaded.load_documents([entry for entry in queue.all_entries() if entry.waiting], 1)
    return queue


def _next_classic_counts(tx: Transaction) -> dict[int, int]:
    """The count of each customer's next classic check."""
    counts = {}
    for id_, count, counted_at, text in tx.connection.execute(sql("classic_records")):
        own = rows.settings_from(text)
        rule = tx.rules.classic(own.reset_interval, own.thresholds)
        counter = rows.counter(count, counted_at)
        counts[id_] = 0 if counter is None else rule.check(counter, now=tx.now).count
    return counts
