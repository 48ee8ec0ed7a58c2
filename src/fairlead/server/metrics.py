"""Numbers for Prometheus. They name no customer: anybody who reaches the port may read them."""

from __future__ import annotations

from collections import Counter as Numbers
from collections.abc import Iterator, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.app import Fairlead
from fairlead.model.capacity import Capacity
from fairlead.model.documents import Event
from fairlead.model.names import time_of
from fairlead.server.first_starts import FirstStarts

WAITS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400)


class Metrics:
    """Counts requests and events; the store's numbers are read when somebody asks."""

    def __init__(self, fairlead: Fairlead) -> None:
        registry = self._registry = CollectorRegistry()
        registry.register(_StoreNumbers(fairlead))
        self._events = Counter(
            "fairlead_events", "Things that happened", ["kind"], registry=registry
        )
        self._first_starts = FirstStarts()
        self._waits = Histogram(
            "fairlead_wait_seconds",
            "From submission to the first start",
            buckets=WAITS,
            registry=registry,
        )
        labels = ["method", "route", "status"]
        requests = Counter("fairlead_http_requests", "HTTP requests", labels, registry=registry)
        seconds = Histogram(
            "fairlead_http_seconds", "Until the answer began", ["route"], registry=registry
        )
        # Cached, because the library's `labels` takes most of the time of a count.
        self._requests_of, self._seconds_of = cache(requests.labels), cache(seconds.labels)
        self.streams = Gauge("fairlead_http_streams", "Open event streams", registry=registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request, and how long its response took to begin; status 0: there was none."""
        self._requests_of(method, route, status).inc()
        if status:
            self._seconds_of(route).observe(seconds)

    def hear(self, events: Sequence[Event]) -> None:
        for kind, number in Numbers([event.kind for event in events]).items():
            self._events.labels(kind.value).inc(number)
        for event in events:
            if self._first_starts.is_first(event) and event.document:
                self._waits.observe(max(0.0, event.at - time_of(event.document)))

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _StoreNumbers(Collector):
    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead

    def describe(self) -> list[Metric]:
        return []  # without it, the registry would read the store for the names

    def collect(self) -> Iterator[Metric]:
        documents = GaugeMetricFamily(
            "fairlead_documents", "Documents", labels=["state", "priority"]
        )
        for state, priority, number in self._fairlead.store.tallies():
            documents.add_metric([state, str(priority)], number)
        yield documents
        yield from _capacity(self._fairlead.queue.reported_capacity())
        commits, writes = self._fairlead.store.commits()
        yield CounterMetricFamily("fairlead_commits", "Commits of this process", commits)
        yield CounterMetricFamily("fairlead_writes", "Writes that shared them", writes)


def _capacity(capacity: Capacity) -> Iterator[Metric]:
    most = GaugeMetricFamily(
        "fairlead_step_capacity", "Documents a step processes at once", labels=["step"]
    )
    busy = GaugeMetricFamily(
        "fairlead_step_busy", "Documents a step processes now", labels=["step"]
    )
    for step in capacity.steps:
        most.add_metric([step.step], step.capacity)
        busy.add_metric([step.step], step.busy)
    yield from (most, busy)
    yield GaugeMetricFamily(
        "fairlead_workers", "Documents that workers process at once", capacity.workers
    )
    blocked = {problem.pipeline for problem in capacity.problems}
    yield GaugeMetricFamily("fairlead_pipelines_blocked", "Pipelines that cannot run", len(blocked))
