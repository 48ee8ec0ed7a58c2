"""The fair rule's books: what each account was charged, and what it gets back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairlead.core.costs import Learnt, Row, estimate
from fairlead.core.fair import FairRule, Placed, Tags
from fairlead.stores.sql.moment import Moment
from fairlead.stores.sql.queries import sql
from fairlead.stores.sql.rows import THOUSANDTHS, tags_from


class Account(NamedTuple):
    """An account's row as the rule needs it."""

    id: int
    tags: Tags | None
    weight: float
    has_pending: bool


def account_of(moment: Moment, customer: int) -> Account:
    """The account of a customer."""
    row = moment.connection.execute(sql("account_of_customer"), (customer,)).fetchone()
    assert row is not None  # noqa: S101 (every customer has one)
    id_, finish, last, submitted_at, weight, pending = row
    return Account(id_, tags_from(finish, last, submitted_at), weight / THOUSANDTHS, pending > 0)


def save(moment: Moment, account: Account, tags: Tags | None) -> None:
    """Keep an account's record."""
    if tags is not None:
        row = (tags.finish, tags.last, tags.submitted_at, account.id)
        moment.connection.execute(sql("save_tags"), row)


def charge(moment: Moment, rule: FairRule, customer: int, costs: Iterable[float]) -> list[Placed]:
    """The places of more documents of a customer, paid for by its account."""
    account, places = charged(moment, rule, account_of(moment, customer), costs)
    save(moment, account, account.tags)
    return places


def charged(
    moment: Moment, rule: FairRule, account: Account, costs: Iterable[float]
) -> tuple[Account, list[Placed]]:
    """The account when it has paid for more documents, and their places; nothing is saved."""
    places = []
    for cost in costs:
        placed = rule.submit(
            account.tags,
            moment.clock,
            cost=cost,
            weight=account.weight,
            now=moment.now,
            has_pending=account.has_pending,
        )
        account = account._replace(tags=placed.tags, has_pending=True)
        places.append(placed)
    return account, places


def correct(moment: Moment, customer: int, *, estimated: float, actual: float) -> None:
    """Charge what the work really took in the place of the estimate."""
    if not moment.is_fair:
        return
    account = account_of(moment, customer)
    if account.tags is not None:
        after = moment.rules.fair().corrected(
            account.tags, estimate=estimated, actual=actual, weight=account.weight
        )
        save(moment, account, after)


def give_back(moment: Moment, customer: int, cost: float) -> None:
    """Undo the charge for a document that ended before it ran and waits no more."""
    if not moment.is_fair:
        return
    account = account_of(moment, customer)
    if account.tags is not None:
        after = moment.rules.fair().given_back(
            account.tags,
            estimate=cost,
            weight=account.weight,
            last_waiting=_last_waiting(moment, account),
        )
        save(moment, account, after)


def lift(moment: Moment, customer: int) -> None:
    """Bring what a customer held back, paused or at its cap, up to the clock.

    Its tags lie behind by all that the others got meanwhile. It waited by somebody's decision,
    not by its turn, so this is no credit with which it could push the others aside.
    """
    if not moment.is_fair:
        return
    query = sql("first_tag_outside_the_line")
    first: float | None = moment.connection.execute(query, (customer,)).get
    if first is None or first >= moment.clock.value:
        return
    by = moment.clock.value - first
    moment.connection.execute(sql("lift_customer"), (by, customer))
    account = account_of(moment, customer)
    save(moment, account, moment.rules.fair().lifted(account.tags, by))


def forgive(moment: Moment, customer: int) -> None:
    """Let the account start at the clock again, or right behind what still waits of it."""
    if not moment.is_fair:
        return
    account = account_of(moment, customer)
    if account.tags is not None:
        last = _last_waiting(moment, account)
        after = moment.rules.fair().forgiven(account.tags, moment.clock, last_waiting=last)
        save(moment, account, after)


def rest(moment: Moment) -> None:
    """Bring the clock to the highest finish tag when nobody waits."""
    if not moment.is_fair or moment.connection.execute(sql("backlog")).get:
        return
    query = sql("highest_finish")
    highest: float | None = moment.connection.execute(query, (moment.clock.value,)).get
    if highest is not None:
        moment.save_clock(moment.rules.fair().when_idle(moment.clock, highest))


def estimated(moment: Moment, row: Row) -> float:
    """Seconds of work that a document of this row will take, by what was learnt so far."""
    exact = moment.connection.execute(sql("cost_row"), row).fetchone()
    if exact is not None:
        return estimate(row, {row.doublings: Learnt(*exact)})
    known = moment.connection.execute(sql("cost_rows"), row[:2])
    return estimate(row, {each[0]: Learnt(*each[1:]) for each in known})


def _last_waiting(moment: Moment, account: Account) -> float | None:
    """The highest tag of the account's documents that wait; None: none does."""
    last: float | None = moment.connection.execute(sql("last_waiting_tag"), (account.id,)).get
    return last
