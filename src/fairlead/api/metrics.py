"""Numbers for Prometheus. They name no customer: anybody who reaches the port may read them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.app import Fairlead
from fairlead.core.documents import Event, EventKind
from fairlead.ids import time_of

WAITS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400)


class Metrics:
    """What is counted, and what is looked up when somebody asks."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Figures(fairlead))
        self._events = Counter(
            "fairlead_events", "Things that happened", ["kind"], registry=self._registry
        )
        self._kinds: dict[EventKind, Counter] = {}
        self._waits = Histogram(
            "fairlead_wait_seconds",
            "From submission to the first start",
            buckets=WAITS,
            registry=self._registry,
        )
        self._requests = Counter(
            "fairlead_http_requests",
            "HTTP requests",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "fairlead_http_seconds", "Until the answer began", ["route"], registry=self._registry
        )
        self._lines: dict[tuple[str, str, int], tuple[Counter, Histogram | None]] = {}
        self.streams = Gauge("fairlead_http_streams", "Open event streams", registry=self._registry)

    def hear(self, event: Event) -> None:
        """Count an event."""
        if event.kind not in self._kinds:
            self._kinds[event.kind] = self._events.labels(event.kind.value)
        self._kinds[event.kind].inc()
        if event.kind is EventKind.CLAIMED and event.document and event.data.get("fence") == 1:
            self._waits.observe(max(0.0, event.at - time_of(event.document)))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request, and how long its answer took to begin; status 0: there was none."""
        name = (method, route, status)
        if name not in self._lines:  # to look for its two lines each time would take longer
            self._lines[name] = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(route) if status else None,
            )
        requests, times = self._lines[name]
        requests.inc()
        if times is not None:
            times.observe(seconds)

    def text(self) -> bytes:
        """All numbers, as Prometheus reads them."""
        return generate_latest(self._registry)


class _Figures(Collector):
    """What the store knows."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead

    def describe(self) -> list[Metric]:
        """Nothing beforehand: the store need not be asked for that."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Documents by state and priority, and commits."""
        documents = GaugeMetricFamily(
            "fairlead_documents", "Documents", labels=["state", "priority"]
        )
        for state, priority, number in self._fairlead.store.tallies():
            documents.add_metric([state, str(priority)], number)
        yield documents
        commits, writes = self._fairlead.store.commits()
        yield CounterMetricFamily("fairlead_commits", "Commits of this process", commits)
        yield CounterMetricFamily("fairlead_writes", "Writes that shared them", writes)
