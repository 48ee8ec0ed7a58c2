"""The position of a waiting document: the queue is emptied in memory, nothing is written.

The position is exact up to `MOST_COUNTED` documents ahead; beyond that it is marked as an estimate.
Documents of other pipelines count only if their quotas let them start now and a running worker
serves them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from fairlead.model.explanations import CustomerAhead, QueuePlace
from fairlead.policy.queue import Start
from fairlead.policy.quotas import Quota
from fairlead.policy.rules import Rules
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import LoadedQueue
from fairlead.storage.sql.quotas import served_queues

MOST_COUNTED = 1000
MOST_NAMED = 5
"""How many of the customers ahead are named."""
_WIDTHS = (64, 1024, 100_000)
_DEPTH = 8


def place(connection: Connection, rules: Rules, now: float, id_: str) -> QueuePlace | None:
    """What starts before a document at present; None: it is not in the queue."""
    row = connection.execute(sql("find_document"), (id_,)).fetchone()
    if row is None or row[3] != "waiting":
        return None
    number, customer, pipeline = row[:3]
    values = (customer, pipeline, number)
    slot = connection.execute(sql("slot_of_document"), values).fetchone()
    if slot is None:
        return None
    served = served_queues(connection, now)
    for width in _WIDTHS:
        loaded = _loaded(connection, rules, now, customer, pipeline, width)
        pipelines = [name for name in loaded.pipelines if name in served or name == pipeline]
        ahead, is_reached = _starts_before(loaded, now, number, pipelines if served else None)
        if is_reached:
            return _place(connection, customer, pipeline, ahead)
        if not loaded.queue.needs_entries:
            break
    return _estimated(connection, customer, pipeline, slot, ahead)


def _loaded(
    connection: Connection, rules: Rules, now: float, customer: int, pipeline: str, width: int
) -> LoadedQueue:
    loaded = LoadedQueue(connection, rules).read()
    loaded.load_members(loaded.touched() | {customer})
    loaded.load_best(loaded.pipelines, width)
    if rules.lane is not None:
        loaded.load_overdue(loaded.pipelines, now - rules.lane.after, width)
    loaded.fold()
    queue = loaded.queue
    queue.state.quotas[pipeline] = Quota()
    for member in list(queue.members.values()):
        # The position ignores the customer's own pause and cap and its pipeline's quota. Other
        # customers that are paused or at their cap do not go first.
        if member.id == customer or member.may_start_more:
            member.is_paused, member.cap = False, None
    queue.place_in_order([customer], now)
    return loaded


def _starts_before(
    loaded: LoadedQueue, now: float, number: int, pipelines: list[str] | None
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
    connection: Connection,
    customer: int,
    pipeline: str,
    ahead: list[Start],
    *,
    is_estimate: bool = False,
) -> QueuePlace:
    own = [start for start in ahead if start.customer == customer]
    same = [start.document.estimate for start in ahead if start.document.pipeline == pipeline]
    others = Counter(start.customer for start in ahead if start.customer != customer)
    names = _names(connection, list(others))
    most = sorted(others.items(), key=lambda item: (-item[1], names.get(item[0], "")))
    return QueuePlace(
        own_documents=len(own),
        other_documents=others.total(),
        other_customers=len(others),
        seconds=sum(start.document.estimate for start in ahead),
        own_seconds=sum(start.document.estimate for start in own),
        pipeline_documents=len(same),
        pipeline_seconds=sum(same),
        most=tuple(CustomerAhead(names[id_], many) for id_, many in most[:MOST_NAMED]),
        is_estimate=is_estimate,
    )


def _estimated(
    connection: Connection, customer: int, pipeline: str, slot: tuple[Any, ...], ahead: list[Start]
) -> QueuePlace:
    """The counted documents, scaled to all documents of the same customer that go first."""
    counted = _place(connection, customer, pipeline, ahead, is_estimate=True)
    own, seconds = connection.execute(sql("waiting_before"), (customer, pipeline, *slot)).get
    others = counted.other_documents * (own / counted.own_documents if counted.own_documents else 1)
    others_seconds = counted.seconds - counted.own_seconds
    scale = others / counted.other_documents if counted.other_documents else 1.0
    grown = (own + others) / max(1, counted.own_documents + counted.other_documents)
    return counted._replace(
        own_documents=own,
        other_documents=max(counted.other_documents, round(others)),
        seconds=seconds + others_seconds * scale,
        own_seconds=seconds,
        pipeline_documents=round(counted.pipeline_documents * grown),
        pipeline_seconds=counted.pipeline_seconds * grown,
    )


def _names(connection: Connection, ids: list[int]) -> dict[int, str]:
    values = (connection.array(ids),)
    return dict(connection.execute(sql("names_of_customers"), values).fetchall())
