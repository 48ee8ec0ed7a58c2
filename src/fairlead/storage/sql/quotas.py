"""Quotas of pipelines in the state of the queue; only claims and starting processes write it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from math import inf

from fairlead.model.engines import EngineReport, StepUse
from fairlead.model.explanations import PipelineState
from fairlead.model.json import from_json
from fairlead.model.pipelines import DEFAULT_PIPELINE, Pipeline
from fairlead.policy.quotas import Quota, limit_text, quota_text
from fairlead.policy.rules import Rules
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import LoadedQueue
from fairlead.storage.sql.transaction import Transaction

_NO_EVENTS = 0


def differs(connection: Connection, rules: Rules, pipelines: Iterable[Pipeline]) -> bool:
    """Whether a stored quota differs; usually none does, and a start writes nothing."""
    stored = LoadedQueue(connection, rules, _NO_EVENTS).read().queue.state.quotas
    return any(_quota(stored.get(own.name), own, 0.0) is not None for own in pipelines)


def save(tx: Transaction, pipelines: Iterable[Pipeline]) -> list[str]:
    """Write the quotas; return a sentence for each quota that was replaced."""
    loaded = LoadedQueue(tx.connection, tx.rules, _NO_EVENTS).read()
    stored = loaded.queue.state.quotas
    changes = []
    for pipeline in pipelines:
        before = stored.get(pipeline.name)
        after = _quota(before, pipeline, tx.now)
        if after is None:
            continue
        stored[pipeline.name] = after
        if before is not None and (before.rate, before.max_running) != (None, None):
            changes.append(
                f"the quota of the pipeline {pipeline.name} is now "
                f"{quota_text(after.rate, after.max_running)} "
                f"(was {quota_text(before.rate, before.max_running)})"
            )
    loaded.save()
    return changes


def _quota(before: Quota | None, pipeline: Pipeline, now: float) -> Quota | None:
    """The quota with the limits of the pipeline and its present use; None: it does not change."""
    quota = Quota() if before is None else before
    limits = (pipeline.rate, pipeline.max_running)
    if (quota.rate, quota.max_running) == limits:
        return None
    reopened_at = quota.reopened_at if quota.is_open(now) else now
    return Quota(*limits, running=quota.running, reopened_at=reopened_at)


def state(connection: Connection, rules: Rules, now: float, name: str) -> PipelineState:
    """What prevents the documents of a pipeline from starting.

    The default pipeline counts as served if no worker runs at all.
    """
    loaded = LoadedQueue(connection, rules).read()
    quota = loaded.queue.state.quotas.get(name) or Quota()
    served = served_queues(connection, now)
    is_served = name in served or (name == DEFAULT_PIPELINE and not served)
    limit = None if quota.rate is None or quota.has_token(now) else limit_text(quota.rate)
    is_full = quota.max_running is not None and quota.running >= quota.max_running
    return PipelineState(is_served, limit, quota.running if is_full else None, name)


def waiting_queues(connection: Connection) -> set[str]:
    """The queues in which documents wait."""
    return {name for (name,) in connection.execute(sql("waiting_pipelines"))}


def engines(connection: Connection, _rules: Rules, now: float) -> list[EngineReport]:
    """The latest reports of engines that run."""
    return [
        EngineReport(
            engine,
            workers,
            from_json(tuple[str, ...], queues),
            from_json(tuple[StepUse, ...], steps),
        )
        for engine, workers, queues, steps in connection.execute(sql("engines"), (now,))
    ]


def served_queues(connection: Connection, now: float) -> set[str]:
    """The queues that a running worker serves, or that were polled over HTTP lately."""
    rows = connection.execute(sql("served_pipelines"), (now,))
    return {name for (names,) in rows for name in json.loads(names)}


def serving_workers(connection: Connection, rules: Rules, now: float) -> dict[str, int]:
    """How many documents of each queue are processed at once, at the least.

    An engine does not report which queues need a step, so its narrowest step counts for all.
    """
    workers = Counter[str]()
    for report in engines(connection, rules, now):
        narrowest = min((use.capacity for use in report.steps if use.capacity), default=inf)
        if report.workers:
            workers.update(dict.fromkeys(report.queues, int(min(report.workers, narrowest))))
    return workers
