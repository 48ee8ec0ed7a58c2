"""What runs, what has arrived and what was processed lately. It reads a bounded number of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fairlead.policy.forecast import LONGEST_WINDOW, Flow, QuotaAhead, RecentArrival
from fairlead.policy.quotas import Quota
from fairlead.policy.resubmission import Submitted, Submitter, priorities_again
from fairlead.policy.rules import Rules
from fairlead.policy.schedule import Rate
from fairlead.policy.service import Hold
from fairlead.policy.serving import Serving, serving_of
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import LoadedQueue
from fairlead.storage.sql.quotas import engines
from fairlead.storage.sql.rows import counter, settings_from

_FEW = 20


class _Begun(NamedTuple):
    """The begin of a claim, and when its document came into its queue."""

    at: float
    waited: float


def flow(connection: Connection, rules: Rules, now: float) -> Flow:
    """The recent work, newest first."""
    serving = serving_of(engines(connection, rules, now), rules.pipelines)
    state = LoadedQueue(connection, rules, 0).read().queue.state
    quotas = {name: _quota(quota, now) for name, quota in state.quotas.items()}
    return Flow(
        serving,
        _holds(connection, now),
        _arrivals(connection, rules, now, serving, is_fair=state.policy == "fair"),
        dict(connection.execute(sql("caps")).fetchall()),
        {name: quota for name, quota in quotas.items() if quota != QuotaAhead()},
    )


def _quota(quota: Quota, now: float) -> QuotaAhead:
    rate = None if quota.rate is None else Rate(quota.rate, quota.tokens_left(now))
    return QuotaAhead(quota.max_running, rate)


def _arrivals(
    connection: Connection, rules: Rules, now: float, serving: Serving, *, is_fair: bool
) -> tuple[RecentArrival, ...]:
    """The latest submissions, as arrivals in the first queue of theirs that is served."""
    queues = {
        pipeline.name: next(
            (queue.name for queue in pipeline.queues if queue.name in serving.served), pipeline.name
        )
        for pipeline in rules.pipelines
    }
    rows = [
        row for row in connection.execute(sql("latest_arrivals")) if now - row[0] <= LONGEST_WINDOW
    ]
    if is_fair:
        behind = [-count * rules.unit for _, _, count, *_ in rows]
    else:
        behind = _priorities_again(rows, rules, now)
    return tuple(
        RecentArrival(max(0.0, now - at), own, estimate, customer, queues.get(pipeline, pipeline))
        for own, (at, _, _, estimate, customer, pipeline, *_) in zip(behind, rows, strict=True)
    )


def _priorities_again(arrivals: Sequence[Any], rules: Rules, now: float) -> list[float]:
    """The priorities of such documents from now on, in the order of the arrivals: newest first."""
    submitted, submitters = [], {}
    for at, priority, _, _, customer, _, count, counted_at, settings in reversed(arrivals):
        submitted.append(Submitted(at, customer, priority))
        if customer not in submitters:
            own = settings_from(settings)
            policy = rules.classic(own.reset_interval, own.thresholds)
            submitters[customer] = Submitter(policy, counter(count, counted_at))
    return priorities_again(submitted, submitters, now)[::-1]


def _holds(connection: Connection, now: float) -> tuple[Hold, ...]:
    """The claims that run, and the latest that ended; newest first."""
    ended, begun = _ended(connection.execute(sql("latest_claims")), now)
    if len(ended) < _FEW:
        rows = connection.execute(sql("latest_ended"))
        ended = [
            *ended,
            *(Hold(queue, estimate, at - now, end - now) for queue, estimate, at, end in rows),
        ]
    running = []
    for number, customer, queue, estimate, at, since in connection.execute(sql("running_claims")):
        waited = begun[number].waited if number in begun else at - since
        running.append(Hold(queue, estimate, min(0.0, at - now), None, waited, customer))
    return (*running, *ended)


def _ended(rows: Iterable[Any], now: float) -> tuple[list[Hold], dict[int, _Begun]]:
    """The claims that ended, newest first, and those whose end is not among the events."""
    begun: dict[int, _Begun] = {}
    moved: dict[int, tuple[str, float]] = {}
    holds: list[Hold] = []
    for at, kind, number, data, pipeline, queue, estimate, submitted_at in rows:
        came = moved.get(number, (None, submitted_at))
        if kind == "claimed":
            begun[number] = _Begun(at, at - came[1])
            continue
        to = json.loads(data).get("queue") if kind == "released" and data else None
        claim = begun.pop(number, None)
        if claim is not None and (to is not None or kind != "released"):
            # A document that moves on was in the first queue, if no earlier move is known.
            own = came[0] or (pipeline if to else queue or pipeline)
            holds.append(Hold(own, estimate, claim.at - now, at - now, claim.waited))
        if to is not None:
            moved[number] = (to, at)
        elif kind == "requeued":
            moved[number] = (came[0] or queue or pipeline, at)
    return holds[::-1], begun
