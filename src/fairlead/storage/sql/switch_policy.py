"""Switching a live queue from one policy to the other, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fairlead.model.customers import Tags
from fairlead.model.documents import EventKind, Switched
from fairlead.policy.fair import Clock
from fairlead.policy.rules import PolicyName
from fairlead.storage.sql import customer_queue, fair_accounts
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.rows import THOUSANDTHS, Row, thresholds_from
from fairlead.storage.sql.transaction import Transaction


class _Account(NamedTuple):
    """An account with something pending: its weight, and each customer's own settings."""

    id: int
    weight: float
    customers: dict[int, tuple[float | None, tuple[int, ...] | None]]


class _Pending(NamedTuple):
    """A document that waits or is processed."""

    seq: int
    customer: int
    classic_count: int
    priority: int
    estimate: float
    submitted_at: float


def switch(tx: Transaction, to: PolicyName) -> Switched | None:
    """Place all pending documents by the other policy; None: it was in force."""
    if tx.policy == to:
        return None
    before, tx.policy = tx.policy, to
    tx.connection.execute(sql("save_policy"), (to,))
    tx.connection.execute(sql("forget_tags"))
    tx.connection.execute(sql("forget_lifts"))
    place = _by_fair if to == "fair" else _by_classic
    done = Switched(before, to, 0, 0, 0)
    for account in _accounts(tx):
        done = _place(tx, account, place, done)
    fair_accounts.rest(tx)
    tx.add_event(EventKind.POLICY_SWITCHED, **done._asdict())
    return done


_Placer = Callable[[Transaction, _Account, list[_Pending]], Iterator[Row]]


def _place(tx: Transaction, account: _Account, place: _Placer, so_far: Switched) -> Switched:
    query = sql("pending_documents")
    pending = [_Pending(*row) for row in tx.connection.execute(query, (account.id,))]
    placed = list(place(tx, account, pending))
    tx.connection.executemany(sql("place_document"), placed)
    owners = {each.customer for each in pending}
    for customer in owners:
        customer_queue.refresh(tx, customer)
    moved = sum(old.priority != new[2] for old, new in zip(pending, placed, strict=True))
    return so_far._replace(
        documents=so_far.documents + len(pending),
        customers=so_far.customers + len(owners),
        moved=so_far.moved + moved,
    )


def _accounts(tx: Transaction) -> Iterator[_Account]:
    found: list[Row] = tx.connection.execute(sql("pending_accounts")).fetchall()
    for id_, weight in found:
        customers = {
            customer: (interval, thresholds_from(thresholds))
            for customer, interval, thresholds in tx.connection.execute(
                sql("pending_customers"), (id_,)
            )
        }
        yield _Account(id_, weight / THOUSANDTHS, customers)


def _by_fair(tx: Transaction, account: _Account, pending: list[_Pending]) -> Iterator[Row]:
    """As if all of it had been sent at this moment, in the order in which it came."""
    tags: Tags | None = None
    clock = Clock(tx.clock.value, tx.now)
    rules = {customer: tx.rules.fair(*own) for customer, own in account.customers.items()}
    for each in pending:
        rule = rules[each.customer]
        placed = rule.submit(
            tags,
            clock,
            cost=each.estimate,
            weight=account.weight,
            now=each.submitted_at,
            has_pending=tags is not None,
        )
        tags = placed.tags
        own = (placed.count, placed.priority, rule.label, placed.tag, each.classic_count)
        yield (each.seq, *own)
    owner = fair_accounts.Account(account.id, None, account.weight, has_pending=True)
    fair_accounts.save(tx, owner, tags)


def _by_classic(tx: Transaction, account: _Account, pending: list[_Pending]) -> Iterator[Row]:
    """By the counts that the classic rule gave, which are kept whatever policy is in force."""
    rules = {customer: tx.rules.classic(*own) for customer, own in account.customers.items()}
    for each in pending:
        policy = rules[each.customer]
        level = policy.priority_of(each.classic_count)
        yield (each.seq, each.classic_count, level, policy.label, float(level), None)
