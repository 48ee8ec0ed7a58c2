"""The position of a waiting document: the queue is emptied in memory, nothing is written.

The position is exact up to `MOST_COUNTED` documents ahead; beyond that it is marked as an estimate.
Documents of other queues count only if they compete for the same places, which running engines
tell, and if their quotas let them start now. The forecast also needs those that a cap or a quota
holds back now: they start later, and may still start before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from fairlead.model.explanations import CustomerAhead, QueuePlace
from fairlead.policy.forecast import Outlook, QueuedBefore
from fairlead.policy.queue import Start
from fairlead.policy.quotas import Quota
from fairlead.policy.rules import Rules
from fairlead.policy.serving import serving_of
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import LoadedQueue, load_folded
from fairlead.storage.sql.quotas import engines
from fairlead.storage.sql.recent_work import flow

MOST_COUNTED = 1000
MOST_NAMED = 5
"""How many of the customers ahead are named."""
_WIDTHS = (64, 1024, 100_000)
_DEPTH = 8


def place(connection: Connection, rules: Rules, now: float, id_: str) -> QueuePlace | None:
    """What starts before a document at present; None: it is not in the queue."""
    wanted = _wanted(connection, rules, now, id_)
    return None if wanted is None else _counted(connection, rules, wanted).place


def outlook(connection: Connection, rules: Rules, now: float, id_: str) -> Outlook | None:
    """All from which the start of a document is forecast; None: it is not in the queue."""
    wanted = _wanted(connection, rules, now, id_)
    if wanted is None:
        return None
    counted = _counted(connection, rules, wanted)
    starts = counted.starts
    if counted.is_anything_held:
        starts = _counted(connection, rules, wanted, with_held=True).starts
    return Outlook(
        counted.place,
        QueuedBefore(wanted.customer, wanted.queue, wanted.estimate),
        tuple(
            QueuedBefore(start.customer, start.document.pipeline, start.document.estimate)
            for start in starts
        ),
        flow(connection, rules, now),
    )


def last_waiting(connection: Connection, rules: Rules, _now: float, customer: str) -> list[str]:
    """The last waiting document of each queue of a customer."""
    number = connection.execute(sql("customer_id"), (customer,)).get
    if number is None:
        return []
    entries = load_folded(connection, rules, {number}).queue.member(number).entries
    rows = (
        connection.execute(sql("last_waiting"), (number, queue)).fetchone()
        for queue, entry in entries.items()
        if entry.waiting
    )
    return [row[0] for row in rows if row is not None]


class _Wanted(NamedTuple):
    """The document in question, and the queues that compete with its own; None: all do."""

    now: float
    number: int
    customer: int
    queue: str
    estimate: float
    slot: tuple[Any, ...]
    competing: frozenset[str] | None


class _Counted(NamedTuple):
    """The documents before one. `is_anything_held`: a cap or a quota holds back others."""

    place: QueuePlace
    starts: list[Start]
    is_anything_held: bool


def _wanted(connection: Connection, rules: Rules, now: float, id_: str) -> _Wanted | None:
    row = connection.execute(sql("find_document"), (id_,)).fetchone()
    if row is None or row[3] != "waiting":
        return None
    number, customer, queue, _, _, _, estimate, *_ = row
    values = (customer, queue, number)
    slot = connection.execute(sql("slot_of_document"), values).fetchone()
    if slot is None:
        return None
    reports = engines(connection, rules, now)
    competing = serving_of(reports, ()).sharing(queue) if reports else None
    return _Wanted(now, number, customer, queue, estimate, slot, competing)


def _counted(
    connection: Connection, rules: Rules, wanted: _Wanted, *, with_held: bool = False
) -> _Counted:
    """Empty the queue up to the document; `with_held` as if no cap and no quota held back any."""
    for width in _WIDTHS:
        loaded = _loaded(connection, rules, wanted, width)
        competing = [
            name
            for name in loaded.pipelines
            if wanted.competing is None or name in wanted.competing
        ]
        is_anything_held = _is_anything_held(loaded, wanted, competing)
        _let_start(loaded, wanted, with_held=with_held)
        starts, is_reached = _starts_before(loaded, wanted.now, wanted.number, competing)
        if is_reached:
            place = _place(connection, wanted.customer, starts)
            return _Counted(place, starts, is_anything_held)
        if not loaded.queue.needs_entries:
            break
    most = _number_waiting(connection, loaded, competing) + len(starts) - 1
    place = _estimated(connection, wanted, starts, most)
    return _Counted(place, starts, is_anything_held)


def _loaded(connection: Connection, rules: Rules, wanted: _Wanted, width: int) -> LoadedQueue:
    loaded = LoadedQueue(connection, rules).read()
    running = {row[0] for row in connection.execute(sql("running_customers"))}
    loaded.load_members(loaded.touched() | running | {wanted.customer})
    loaded.load_best(loaded.pipelines, width)
    if rules.lane is not None:
        loaded.load_overdue(loaded.pipelines, wanted.now - rules.lane.after, width)
    loaded.fold()
    return loaded


def _is_anything_held(loaded: LoadedQueue, wanted: _Wanted, competing: Iterable[str]) -> bool:
    """Whether a cap or a quota holds back documents that compete with this one."""
    quotas = loaded.queue.state.quotas
    return any(
        name != wanted.queue and not quotas[name].is_open(wanted.now) for name in competing
    ) or any(
        member.id != wanted.customer and not member.is_paused and not member.may_start_more
        for member in loaded.queue.members.values()
    )


def _let_start(loaded: LoadedQueue, wanted: _Wanted, *, with_held: bool) -> None:
    """Let the customer's documents start in spite of its pause, its cap and its queue's quota.

    Other customers that are paused or at their cap do not go first.
    """
    queue, placed = loaded.queue, [wanted.customer]
    for name in queue.state.quotas if with_held else [wanted.queue]:
        queue.state.quotas[name] = Quota()
    for member in list(queue.members.values()):
        if member.id == wanted.customer or member.may_start_more:
            member.is_paused, member.cap = False, None
        elif with_held and not member.is_paused:
            member.cap = None
            placed.append(member.id)
    queue.place_in_order(placed, wanted.now)


def _starts_before(
    loaded: LoadedQueue, now: float, number: int, pipelines: list[str]
) -> tuple[list[Start], bool]:
    """The documents that start before this one, and whether it was reached."""
    starts: list[Start] = []
    depth = _DEPTH
    while len(starts) < MOST_COUNTED:
        loaded.load_unknown(depth)
        chosen = loaded.queue.choose(1, now, pipelines)
        if chosen and chosen[0].document.number == number:
            return starts, True
        starts += chosen
        if not chosen and not loaded.queue.needs_documents:
            break
        depth = min(4 * depth, MOST_COUNTED)
    return starts, False


def _place(
    connection: Connection, customer: int, ahead: list[Start], *, is_estimate: bool = False
) -> QueuePlace:
    own = [start for start in ahead if start.customer == customer]
    others = Counter(start.customer for start in ahead if start.customer != customer)
    names = _names(connection, list(others))
    most = sorted(others.items(), key=lambda item: (-item[1], names.get(item[0], "")))
    return QueuePlace(
        own_documents=len(own),
        other_documents=others.total(),
        other_customers=len(others),
        seconds=sum(start.document.estimate for start in ahead),
        own_seconds=sum(start.document.estimate for start in own),
        most=tuple(CustomerAhead(names[id_], many) for id_, many in most[:MOST_NAMED]),
        is_estimate=is_estimate,
    )


def _number_waiting(connection: Connection, loaded: LoadedQueue, queues: Collection[str]) -> int:
    """The documents that wait in these queues and may start, besides those that were chosen."""
    members = loaded.queue.members
    values = (connection.array(sorted(queues)), connection.array(sorted(members)))
    others: int = connection.execute(sql("waiting_of_others"), values).get
    return others + sum(
        entry.waiting
        for member in members.values()
        if not member.is_account and member.may_start_more
        for entry in member.entries.values()
        if entry.pipeline in queues
    )


def _estimated(
    connection: Connection, wanted: _Wanted, ahead: list[Start], most: int
) -> QueuePlace:
    """The counted documents, scaled to all documents of the same customer that go first.

    `most` is how many there can be before it in all.
    """
    counted = _place(connection, wanted.customer, ahead, is_estimate=True)
    values = (wanted.customer, wanted.queue, *wanted.slot)
    own, seconds = connection.execute(sql("waiting_before"), values).get
    others = counted.other_documents * (own / counted.own_documents if counted.own_documents else 1)
    others = max(counted.other_documents, min(round(others), most - own))
    others_seconds = counted.seconds - counted.own_seconds
    scale = others / counted.other_documents if counted.other_documents else 1.0
    return counted._replace(
        own_documents=own,
        other_documents=others,
        seconds=seconds + others_seconds * scale,
        own_seconds=seconds,
    )


def _names(connection: Connection, ids: list[int]) -> dict[int, str]:
    values = (connection.array(ids),)
    return dict(connection.execute(sql("names_of_customers"), values).fetchall())
