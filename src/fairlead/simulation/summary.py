"""How long documents waited in a simulation: per customer, and in total."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from fairlead.simulation.simulate import Run
from fairlead.simulation.trace import Arrival


class WaitStatistics(NamedTuple):
    """How long documents waited, in seconds from `at` to their start."""

    documents: int
    mean: float
    p50: float
    p95: float
    max: float


class Summary(NamedTuple):
    """The waits of all documents and of each customer, those with most documents first.

    `lane` is the number of documents that the overdue lane started.
    """

    whole: WaitStatistics
    customers: dict[str, WaitStatistics]
    lane: int


def summarise(arrivals: Sequence[Arrival], runs: Sequence[Run]) -> Summary:
    waits: dict[str, list[float]] = {}
    for arrival, run in zip(arrivals, runs, strict=True):
        waits.setdefault(arrival.customer, []).append(run.started - arrival.at)
    # sorted() keeps the order of first appearance among customers with equally many documents.
    busiest = sorted(waits.items(), key=lambda item: -len(item[1]))
    return Summary(
        whole=waits_of(chain.from_iterable(waits.values())),
        customers={customer: waits_of(own) for customer, own in busiest},
        lane=sum(run.lane for run in runs),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of values in rising order: always one of the values."""
    return ordered[math.ceil(percent * len(ordered) / 100) - 1]


def waits_of(waits: Iterable[float]) -> WaitStatistics:
    ordered = sorted(waits)
    return WaitStatistics(
        documents=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        p50=percentile(ordered, 50),
        p95=percentile(ordered, 95),
        max=ordered[-1],
    )
