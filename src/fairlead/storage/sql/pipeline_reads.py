"""Figures of pipelines: waiting, running, ended and failed documents, and the use of quotas."""

from __future__ import annotations

from fairlead.model.pipeline_figures import PipelineCounts
from fairlead.policy.quotas import Quota, limit_text
from fairlead.policy.rules import Rules
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.queue_rows import LoadedQueue
from fairlead.storage.sql.quotas import served_queues

LATELY = 3600.0
_NO_EVENTS = 0


def pipelines(connection: Connection, rules: Rules, now: float) -> dict[str, PipelineCounts]:
    """Figures by name. Only the latest events are read, so a busy installation counts minutes."""
    counts: dict[str, PipelineCounts] = {}
    quotas = LoadedQueue(connection, rules, _NO_EVENTS).read().queue.state.quotas
    for name, quota in quotas.items():
        counts[name] = _with_quota(quota, now)
    for name, waiting, processing in connection.execute(sql("pending_of_pipelines")):
        before = counts.get(name, PipelineCounts())
        counts[name] = before._replace(waiting=int(waiting), processing=int(processing))
    for name, code, number, first in connection.execute(sql("ended_lately"), (now - LATELY,)):
        before = counts.get(name, PipelineCounts())
        failures = before.failures if code is None else {**before.failures, code: number}
        since = first if before.since is None else min(first, before.since)
        counts[name] = before._replace(ended=before.ended + number, since=since, failures=failures)
    served = served_queues(connection, now)
    return {
        name: counts.get(name, PipelineCounts())._replace(served=name in served)
        for name in {*counts, *served}
    }


def _with_quota(quota: Quota, now: float) -> PipelineCounts:
    limit = None if quota.rate is None else limit_text(quota.rate)
    open_at = None if quota.has_token(now) else quota.opens_at(now)
    return PipelineCounts(limit, quota.max_running, open_at=open_at)
