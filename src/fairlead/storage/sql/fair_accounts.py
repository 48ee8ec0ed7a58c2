"""The fair rule's books: what each account was charged, and what it gets back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairlead.model.customers import Tags
from fairlead.policy.costs import CostBucket, LearnedCosts, estimate
from fairlead.policy.fair import FairRule, Placed
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.rows import THOUSANDTHS, tags_from
from fairlead.storage.sql.transaction import Transaction


class Account(NamedTuple):
    """An account's row as the rule needs it."""

    id: int
    tags: Tags | None
    weight: float
    has_pending: bool


def account_of(tx: Transaction, customer: int) -> Account:
    """The account of a customer."""
    row = tx.connection.execute(sql("account_of_customer"), (customer,)).fetchone()
    assert row is not None  # noqa: S101 (every customer has one)
    id_, finish, last, submitted_at, weight, pending = row
    return Account(id_, tags_from(finish, last, submitted_at), weight / THOUSANDTHS, pending > 0)


def save(tx: Transaction, account: Account, tags: Tags | None) -> None:
    """Keep an account's record."""
    if tags is not None:
        row = (tags.finish, tags.last, tags.submitted_at, account.id)
        tx.connection.execute(sql("save_tags"), row)


def charge(tx: Transaction, rule: FairRule, customer: int, costs: Iterable[float]) -> list[Placed]:
    """The places of more documents of a customer, paid for by its account."""
    account, places = charged(tx, rule, account_of(tx, customer), costs)
    save(tx, account, account.tags)
    return places


def charged(
    tx: Transaction, rule: FairRule, account: Account, costs: Iterable[float]
) -> tuple[Account, list[Placed]]:
    """The account when it has paid for more documents, and their places; nothing is saved."""
    places = []
    for cost in costs:
        placed = rule.submit(
            account.tags,
            tx.clock,
            cost=cost,
            weight=account.weight,
            now=tx.now,
            has_pending=account.has_pending,
        )
        account = account._replace(tags=placed.tags, has_pending=True)
        places.append(placed)
    return account, places


def correct(tx: Transaction, customer: int, *, estimated: float, actual: float) -> None:
    """Charge what the work really took in the place of the estimate."""
    if not tx.is_fair:
        return
    account = account_of(tx, customer)
    if account.tags is not None:
        after = tx.rules.fair().corrected(
            account.tags, estimate=estimated, actual=actual, weight=account.weight
        )
        save(tx, account, after)


def give_back(tx: Transaction, customer: int, cost: float) -> None:
    """Undo the charge for a document that ended before it ran and waits no more."""
    if not tx.is_fair:
        return
    account = account_of(tx, customer)
    if account.tags is not None:
        after = tx.rules.fair().given_back(
            account.tags,
            estimate=cost,
            weight=account.weight,
            last_waiting=_last_waiting(tx, account),
        )
        save(tx, account, after)


def lift(tx: Transaction, customer: int) -> None:
    """Bring what a customer held back, paused or at its cap, up to the clock.

    Its tags lie behind by all that the others got meanwhile. It waited by somebody's decision,
    not by its turn, so this is no credit with which it could push the others aside.
    """
    if not tx.is_fair:
        return
    query = sql("first_tag_outside_the_line")
    first: float | None = tx.connection.execute(query, (customer,)).get
    if first is None or first >= tx.clock.value:
        return
    by = tx.clock.value - first
    tx.connection.execute(sql("lift_customer"), (by, customer))
    account = account_of(tx, customer)
    save(tx, account, tx.rules.fair().lifted(account.tags, by))


def forgive(tx: Transaction, customer: int) -> None:
    """Let the account start at the clock again, or right behind what still waits of it."""
    if not tx.is_fair:
        return
    account = account_of(tx, customer)
    if account.tags is not None:
        last = _last_waiting(tx, account)
        after = tx.rules.fair().forgiven(account.tags, tx.clock, last_waiting=last)
        save(tx, account, after)


def rest(tx: Transaction) -> None:
    """Bring the clock to the highest finish tag when nobody waits."""
    if not tx.is_fair or tx.connection.execute(sql("backlog")).get:
        return
    query = sql("highest_finish")
    highest: float | None = tx.connection.execute(query, (tx.clock.value,)).get
    if highest is not None:
        tx.save_clock(tx.rules.fair().when_idle(tx.clock, highest))


def estimated(tx: Transaction, row: CostBucket) -> float:
    """Seconds of work that a document of this row will take, by what was learnt so far."""
    exact = tx.connection.execute(sql("cost_row"), row).fetchone()
    if exact is not None:
        return estimate(row, {row.doublings: LearnedCosts(*exact)})
    known = tx.connection.execute(sql("cost_rows"), row[:2])
    return estimate(row, {each[0]: LearnedCosts(*each[1:]) for each in known})


def _last_waiting(tx: Transaction, account: Account) -> float | None:
    """The highest tag of the account's documents that wait; None: none does."""
    last: float | None = tx.connection.execute(sql("last_waiting_tag"), (account.id,)).get
    return last
