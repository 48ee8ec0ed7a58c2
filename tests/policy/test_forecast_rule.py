"""The forecast, case by case."""

from __future__ import annotations

import random
from dataclasses import replace
from heapq import heapreplace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.policy.forecast import (
    Ahead,
    FinishedDocument,
    Flow,
    Range,
    RecentArrival,
    RunningDocument,
    forecast,
)

TRUE = tuple(FinishedDocument(6.0, 6.0) for _ in range(200))
seconds = st.floats(0, 1e6)


def test_without_workers_nobody_can_tell() -> None:
    assert forecast(Ahead(3, 18.0, 1.0, False), Flow(workers=0)) is None


def test_a_free_worker_takes_it_at_once() -> None:
    flow = Flow(workers=3, running=(RunningDocument(1.0, 6.0),))
    assert forecast(Ahead(1, 6.0, 1.0, False), flow) == Range(0.0, 0.0, 0.0)


def test_the_work_ahead_is_shared_by_the_workers() -> None:
    flow = Flow(workers=2, running=(RunningDocument(0.0, 6.0),) * 2, finished=TRUE)
    result = forecast(Ahead(100, 600.0, 1.0, False), flow)
    assert result is not None
    assert 290 < result.expected < 320
    assert result.low < result.expected < result.high


def test_what_arrives_before_it_makes_it_longer_and_less_sure() -> None:
    ahead = Ahead(100, 600.0, 5.0, False)
    quiet = forecast(ahead, Flow(workers=2, finished=TRUE))
    early = tuple(RecentArrival(float(age), 1.0, 6.0) for age in range(0, 3600, 6))
    busy = forecast(ahead, Flow(workers=2, arrived=early, finished=TRUE))
    late = tuple(arrival._replace(behind=5.0) for arrival in early)
    behind = forecast(ahead, Flow(workers=2, arrived=late, finished=TRUE))
    assert quiet is not None
    assert busy is not None
    assert behind is not None
    assert busy.expected > 1.9 * quiet.expected
    assert behind.expected == quiet.expected


def test_estimates_that_were_half_of_it_are_doubled() -> None:
    flow = Flow(workers=1, finished=tuple(FinishedDocument(3.0, 6.0) for _ in range(200)))
    result = forecast(Ahead(10, 30.0, 1.0, False), flow)
    assert result is not None
    assert 55 < result.expected < 62


def test_the_cap_and_the_lane_bound_it() -> None:
    flow = Flow(workers=8, running=(RunningDocument(0.0, 6.0),) * 8, finished=TRUE)
    capped = forecast(Ahead(10, 60.0, 1.0, False, own_documents=10, own_seconds=60.0, cap=1), flow)
    assert capped is not None
    assert capped.low < 59 < capped.expected < capped.high
    lane = forecast(Ahead(1000, 6000.0, 9.0, False, latest=20.0), flow)
    assert lane is not None
    assert 0 < lane.low < lane.expected == 20.0 < lane.high < 30, "the lane leaves a range"


def test_a_cap_that_was_lowered_waits_for_those_that_run() -> None:
    elapsed = (9.0, 1.0, 1.0, 1.0, 1.0)
    flow = Flow(
        workers=8,
        running=tuple(RunningDocument(seconds, 10.0, "acme") for seconds in elapsed),
        finished=tuple(FinishedDocument(10.0, 10.0) for _ in range(200)),
    )
    result = forecast(Ahead(0, 0.0, 1.0, False, cap=1, customer="acme"), flow)
    assert result is not None
    assert 8 < result.expected < 10


@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("noise", [0.3, 0.8])
def test_three_of_four_starts_of_a_capped_customer_lie_in_the_range(cap: int, noise: float) -> None:
    """On workers that have nothing else to do: its queue moves as its cap allows."""
    chance = random.Random(31)
    took = [6.0 * chance.lognormvariate(-0.32, 0.8) for _ in range(400)]
    estimates = [seconds * chance.lognormvariate(-noise * noise / 2, noise) for seconds in took]
    known = tuple(FinishedDocument(*pair) for pair in zip(estimates[200:], took[200:], strict=True))
    free_at, starts = [0.0] * cap, list[float]()
    for seconds in took[:200]:
        starts.append(heapreplace(free_at, free_at[0] + seconds))
    hits = number = 0
    for now in (50.0, 150.0, 300.0):
        started = [index for index in range(200) if starts[index] <= now]
        running = [index for index in started if starts[index] + took[index] > now]
        flow = Flow(
            workers=8,
            running=tuple(
                RunningDocument(now - starts[index], estimates[index], "acme") for index in running
            ),
            finished=known,
        )
        for document in range(len(started), 200):
            before = estimates[len(started) : document]
            own = (len(before), sum(before))
            ahead = Ahead(*own, 1.0, False, *own, cap=cap, customer="acme")
            result = forecast(ahead, flow)
            assert result is not None
            hits += result.low <= starts[document] - now <= result.high
            number += 1
    assert number > 100
    assert hits / number >= 0.75


@given(
    st.integers(0, 10**6),
    seconds,
    st.floats(0, 1e4),
    st.booleans(),
    st.integers(1, 64),
    st.lists(st.builds(RunningDocument, seconds, seconds), max_size=70),
    st.lists(st.builds(RecentArrival, seconds, st.floats(0, 1e4), seconds), max_size=50),
    st.lists(st.builds(FinishedDocument, seconds, seconds), max_size=50),
)
def test_whatever_is_known_the_range_is_in_order(
    documents: int,
    work: float,
    behind: float,
    is_closing: bool,
    workers: int,
    running: list[RunningDocument],
    arrived: list[RecentArrival],
    finished: list[FinishedDocument],
) -> None:
    ahead = Ahead(documents, work if documents else 0.0, behind, is_closing)
    result = forecast(ahead, Flow(workers, tuple(running), tuple(arrived), tuple(finished)))
    assert result is not None
    assert 0 <= result.low <= result.expected <= result.high < float("inf")


def test_a_quota_of_starts_bounds_the_forecast_from_below() -> None:
    flow = Flow(workers=4, finished=TRUE)
    ahead = Ahead(0, 0.0, 1.0, False, quota_seconds=120.0)
    result = forecast(ahead, flow)
    assert result is not None
    assert result.expected == 120.0
    assert result.low < 120.0 < result.high
    busy = forecast(replace(ahead, documents=1000, seconds=6000.0), flow)
    assert busy is not None
    assert busy.expected > 1000, "the wait for workers is longer"


def test_a_quota_of_running_documents_shares_fewer_workers() -> None:
    running = RunningDocument(0.0, 6.0, queue="invoices")
    flow = Flow(workers=8, running=(running, running), finished=TRUE)
    ahead = Ahead(10, 60.0, 1.0, False, queue="invoices", queue_documents=10, queue_seconds=60.0)
    free = forecast(ahead, flow)
    limited = forecast(replace(ahead, max_running=2), flow)
    assert free is not None
    assert limited is not None
    assert limited.expected > 30 > 12 > free.expected
