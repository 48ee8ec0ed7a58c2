"""Quotas of pipelines in the state of the queue: only claims and starting processes write it."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.model.pipelines import Pipeline
from fairlead.policy.quotas import Quota, shown
from fairlead.policy.rules import Rules
from fairlead.storage.sql.claims import Overtaken
from fairlead.storage.sql.queries import Connection
from fairlead.storage.sql.queue_rows import LoadedQueue
from fairlead.storage.sql.transaction import Transaction

_NO_EVENTS = 0


def differs(connection: Connection, rules: Rules, pipelines: Iterable[Pipeline]) -> bool:
    """Whether a quota is stored otherwise, so that most starts write nothing."""
    stored = LoadedQueue(connection, rules, _NO_EVENTS).queue.state.quotas
    return any(_quota(stored.get(each.name), each) is not None for each in pipelines)


def save(tx: Transaction, pipelines: Iterable[Pipeline]) -> list[str]:
    """Write the quotas; return in words which were replaced by others."""
    loaded = LoadedQueue(tx.connection, tx.rules, _NO_EVENTS)
    stored = loaded.queue.state.quotas
    changes = []
    for pipeline in pipelines:
        before = stored.get(pipeline.name)
        after = _quota(before, pipeline)
        if after is None:
            continue
        stored[pipeline.name] = after
        if before is not None and (before.rate, before.max_running) != (None, None):
            changes.append(
                f"the quota of the pipeline {pipeline.name} is now "
                f"{shown(after.rate, after.max_running)} "
                f"(was {shown(before.rate, before.max_running)})"
            )
    if not loaded.save():
        raise Overtaken
    return changes


def _quota(before: Quota | None, pipeline: Pipeline) -> Quota | None:
    """The quota with this limit and the use it has had; None: it stays as it is."""
    quota = Quota() if before is None else before
    limits = (pipeline.rate, pipeline.max_running)
    if (quota.rate, quota.max_running) == limits:
        return None
    return Quota(*limits, running=quota.running)
