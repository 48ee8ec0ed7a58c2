"""What a simulation meant for those who waited: for each customer, and for all together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairlead.simulation.simulate import Run
from fairlead.simulation.trace import Arrival


class Waits(NamedTuple):
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

    whole: Waits
    customers: dict[str, Waits]
    lane: int


def summarise(arrivals: Sequence[Arrival], runs: Sequence[Run]) -> Summary:
    """The summary of a simulation of at least one document."""
    waits: dict[str, list[float]] = {}
    for arrival, run in zip(arrivals, runs, strict=True):
        waits.setdefault(arrival.customer, []).append(run.started - arrival.at)
    # sorted() keeps the order of first appearance among customers with equally many documents.
    busiest = sorted(waits.items(), key=lambda item: -len(item[1]))
    return Summary(
        whole=waits_of(wait for several in waits.values() for wait in several),
        customers={customer: waits_of(several) for customer, several in busiest},
        lane=sum(run.lane for run in runs),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that `percent` % of all do not exceed.

    It is always one of the values, never something between two of them.

    Args:
        ordered: At least one value, in rising order.
        percent: Above 0, up to 100.
    """
    return ordered[math.ceil(percent * len(ordered) / 100) - 1]


def waits_of(several: Iterable[float]) -> Waits:
    """The waits of at least one document."""
    ordered = sorted(several)
    return Waits(
        documents=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        p50=percentile(ordered, 50),
        p95=percentile(ordered, 95),
        max=ordered[-1],
    )
