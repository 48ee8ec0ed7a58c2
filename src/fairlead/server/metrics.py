"""Numbers for Prometheus. They name no customer: anybody who reaches the port may read them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Numbers
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fairlead.app import Fairlead
from fairlead.model.documents import Event, EventKind
from fairlead.model.names import time_of

_BOUNDS = Histogram.DEFAULT_BUCKETS
_NAMES = [*map(str, _BOUNDS[:-1]), "+Inf"]
WAITS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400)


class Metrics:
    """What is counted, and what is looked up when somebody asks."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Figures(fairlead))
        self._events = Counter(
            "fairlead_events", "Things that happened", ["kind"], registry=self._registry
        )
        self._waits = Histogram(
            "fairlead_wait_seconds",
            "From submission to the first start",
            buckets=WAITS,
            registry=self._registry,
        )
        requests = _Requests()
        self._registry.register(requests)
        self.answered = requests.answered
        self.streams = Gauge("fairlead_http_streams", "Open event streams", registry=self._registry)

    def hear(self, events: Sequence[Event]) -> None:
        """Count events."""
        for kind, number in Numbers([each.kind for each in events]).items():
            self._events.labels(kind.value).inc(number)
        for each in [each for each in events if each.kind is EventKind.CLAIMED]:
            if each.document and each.data.get("fence") == 1:
                self._waits.observe(max(0.0, each.at - time_of(each.document)))

    def text(self) -> bytes:
        """All numbers, as Prometheus reads them."""
        return generate_latest(self._registry)


class _Requests(Collector):
    """Counts requests, all in one thread: the library's own numbers would cost a lock for each."""

    def __init__(self) -> None:
        self._numbers: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(_BOUNDS))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request, and how long its answer took to begin; status 0: there was none."""
        self._numbers[method, route, status] += 1
        if status:
            self._seconds[route] += seconds
            self._buckets[route][bisect_left(_BOUNDS, seconds)] += 1

    def describe(self) -> list[Metric]:
        """Nothing beforehand: which routes there are is seen when they are asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Requests by method, route and status; seconds by route."""
        requests = CounterMetricFamily(
            "fairlead_http_requests", "HTTP requests", labels=["method", "route", "status"]
        )
        for (method, route, status), number in list(self._numbers.items()):  # new ones may come
            requests.add_metric([method, route, str(status)], number)
        yield requests
        seconds = HistogramMetricFamily(
            "fairlead_http_seconds", "Until the answer began", labels=["route"]
        )
        for route, numbers in list(self._buckets.items()):
            buckets = list(zip(_NAMES, accumulate(numbers), strict=True))
            seconds.add_metric([route], buckets, self._seconds[route])
        yield seconds


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
