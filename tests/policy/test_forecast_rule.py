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
    Flow,
    QueuedBefore,
    QuotaAhead,
    Range,
    RecentArrival,
    forecast,
)
from fairlead.policy.schedule import Rate
from fairlead.policy.service import Hold
from fairlead.policy.serving import Serving, SharedPlaces

QUEUE, NARROW = "default", "invoices"
ACME, GLOBEX = 1, 2
HOLDS = tuple(Hold(QUEUE, 6.0, -6.0 * age - 6.0, -6.0 * age) for age in range(100))
"""A hundred documents that took what was estimated, one after the other."""
seconds = st.floats(0, 1e5)


def serving(workers: int, **queues: int) -> Serving:
    return Serving((SharedPlaces(workers, frozenset([QUEUE, *queues])),), queues)


def runs(number: int, queue: str = QUEUE, customer: int = GLOBEX) -> tuple[Hold, ...]:
    return (Hold(queue, 6.0, 0.0, None, customer=customer),) * number


def ahead(documents: int, behind: float = 1.0, queue: str = QUEUE, *, by: int = GLOBEX) -> Ahead:
    before = (QueuedBefore(by, queue, 6.0),) * documents
    return Ahead(QueuedBefore(ACME, queue, 6.0), before, behind, is_closing=False)


def told(question: Ahead, flow: Flow) -> Range:
    result = forecast(question, flow)
    assert result is not None
    return result


def test_nobody_can_tell_before_somebody_serves_the_queue() -> None:
    assert forecast(ahead(3), Flow()) is None
    assert forecast(ahead(3, queue=NARROW), Flow(serving(4))) is None


def test_a_free_worker_takes_it_at_once() -> None:
    result = told(ahead(1), Flow(serving(3), runs(1)))
    assert result.expected == result.low == 0.0
    assert result.high < 1.0


def test_the_work_ahead_is_shared_by_the_workers() -> None:
    result = told(ahead(100), Flow(serving(2), (*runs(2), *HOLDS)))
    assert 285 < result.expected < 320
    assert result.low < result.expected < result.high


def test_many_documents_are_run_as_fewer_and_take_as_long() -> None:
    few = told(ahead(200), Flow(serving(2), HOLDS))
    many = told(ahead(1000), Flow(serving(2), HOLDS))
    estimated = told(replace(ahead(1000), documents=10_000), Flow(serving(2), HOLDS))
    assert many.expected == pytest.approx(5 * few.expected, rel=0.1)
    assert estimated.expected == pytest.approx(10 * many.expected, rel=0.1)


def test_a_step_that_lets_in_one_document_is_the_bottleneck() -> None:
    flow = Flow(serving(4, invoices=1), (*runs(1, NARROW), *(_of(NARROW))))
    assert 550 < told(ahead(100, queue=NARROW), flow).expected < 680
    other = told(ahead(100), replace(flow, holds=(*runs(4), *HOLDS)))
    assert other.expected < 200, "all four workers serve the other queue"


def _of(queue: str) -> tuple[Hold, ...]:
    return tuple(hold._replace(queue=queue) for hold in HOLDS)


def test_documents_of_a_narrow_step_let_others_pass() -> None:
    before = (QueuedBefore(GLOBEX, NARROW, 6.0),) * 100
    flow = Flow(serving(4, invoices=1), (*runs(1, NARROW), *HOLDS))
    assert told(replace(ahead(0), before=before), flow).expected < 7


def test_each_queue_takes_what_its_own_documents_took() -> None:
    fast = tuple(Hold(NARROW, 6.0, -0.6 * age - 0.6, -0.6 * age) for age in range(100))
    flow = Flow(serving(2, invoices=2), (*fast, *HOLDS))
    assert told(ahead(100, queue=NARROW), flow).expected < 40
    assert told(ahead(100), flow).expected > 280


def test_what_arrives_before_it_makes_it_longer_and_less_sure() -> None:
    question, flow = ahead(100, 5.0), Flow(serving(2), HOLDS)
    quiet = told(question, flow)
    early = tuple(RecentArrival(float(age), 1.0, 6.0, 3, QUEUE) for age in range(0, 3600, 6))
    busy = told(question, replace(flow, arrived=early))
    late = tuple(arrival._replace(behind=5.0) for arrival in early)
    own = tuple(arrival._replace(customer=ACME) for arrival in early)
    elsewhere = tuple(arrival._replace(queue="pulled") for arrival in early)
    assert busy.expected > 1.7 * quiet.expected
    assert busy.high - busy.low > quiet.high - quiet.low
    for arrivals in (late, own, elsewhere):
        assert told(question, replace(flow, arrived=arrivals)) == quiet


def test_estimates_that_were_half_of_it_are_doubled() -> None:
    holds = tuple(hold._replace(estimate=3.0) for hold in HOLDS)
    question = replace(ahead(0), before=(QueuedBefore(GLOBEX, QUEUE, 3.0),) * 10)
    assert 55 < told(question, Flow(serving(1), holds)).expected < 65


def test_estimates_a_hundred_times_too_large_are_forgotten_after_some_documents() -> None:
    holds = tuple(Hold(QUEUE, 6.0, -0.06 * (age + 1), -0.06 * age) for age in range(10))
    assert told(ahead(100), Flow(serving(1), holds)).expected < 8


def test_the_pause_between_two_documents_counts() -> None:
    """A document takes 60 ms, and the next one starts 40 ms after its end."""
    holds = tuple(Hold(QUEUE, 0.06, -0.1 * age - 0.06, -0.1 * age, 5.0) for age in range(100))
    question = replace(ahead(0), before=(QueuedBefore(GLOBEX, QUEUE, 0.06),) * 100)
    assert 9 < told(question, Flow(serving(1), holds)).expected < 11


def test_a_program_that_pulls_is_measured_by_its_ends() -> None:
    """It reports one worker, and holds ten documents at once for a second each."""
    holds = tuple(Hold(QUEUE, 6.0, -0.1 * age - 1.0, -0.1 * age, 50.0) for age in range(100))
    assert 8 < told(ahead(100), Flow(serving(1), holds)).expected < 12


def test_a_cap_and_the_lane_bound_it() -> None:
    flow = Flow(serving(8), (*runs(1, customer=ACME), *HOLDS), caps={ACME: 1})
    capped = told(ahead(10, by=ACME), flow)
    assert 55 < capped.expected < 75
    assert told(ahead(10), flow).expected < 14, "those of others do not need its place"
    lane = told(replace(ahead(1000, 9.0), latest=20.0), Flow(serving(8), (*runs(8), *HOLDS)))
    assert 0 < lane.low < lane.expected == 20.0 < lane.high < 30, "the lane leaves a range"


def test_a_capped_customer_before_it_lets_it_pass() -> None:
    flow = Flow(serving(2), (*runs(1), *HOLDS), caps={GLOBEX: 1})
    assert told(ahead(100), flow).expected == 0.0


def test_a_cap_that_was_lowered_waits_for_those_that_run() -> None:
    running = tuple(Hold(QUEUE, 6.0, -began, None, customer=ACME) for began in (5.0, 0.0, 0.0))
    result = told(ahead(0), Flow(serving(8), (*running, *HOLDS), caps={ACME: 1}))
    assert 5 < result.expected < 7


@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("noise", [0.3, 0.8])
def test_three_of_four_starts_of_a_capped_customer_lie_in_the_range(cap: int, noise: float) -> None:
    """On workers that have nothing else to do: its queue moves as its cap allows."""
    chance = random.Random(31)
    took = [6.0 * chance.lognormvariate(-0.32, 0.8) for _ in range(300)]
    estimates = [seconds * chance.lognormvariate(-noise * noise / 2, noise) for seconds in took]
    known = tuple(
        Hold(QUEUE, estimate, -100.0 - seconds, -100.0)
        for estimate, seconds in zip(estimates[200:], took[200:], strict=True)
    )
    free_at, starts = [0.0] * cap, list[float]()
    for seconds in took[:200]:
        starts.append(heapreplace(free_at, free_at[0] + seconds))
    hits = number = 0
    for now in (50.0, 150.0, 300.0):
        started = [index for index in range(200) if starts[index] <= now]
        running = tuple(
            Hold(QUEUE, estimates[index], starts[index] - now, None, customer=ACME)
            for index in started
            if starts[index] + took[index] > now
        )
        flow = Flow(serving(8), (*running, *known), caps={ACME: cap})
        for document in range(len(started), 200, 4):
            before = tuple(
                QueuedBefore(ACME, QUEUE, each) for each in estimates[len(started) : document]
            )
            question = Ahead(QueuedBefore(ACME, QUEUE, estimates[document]), before, 1.0, False)
            low, high = told(question, flow)[1:]
            hits += low <= starts[document] - now <= high
            number += 1
    assert number > 30
    assert hits / number >= 0.7


def test_a_rate_bounds_the_forecast_from_below() -> None:
    quotas = {QUEUE: QuotaAhead(rate=Rate(1 / 60, 0.0))}
    flow = Flow(serving(4), HOLDS, quotas=quotas)
    result = told(ahead(1), flow)
    assert result.expected == pytest.approx(120.0)
    assert 105 < result.low < 120.0 < result.high < 135, "a rate leaves little to chance"
    slow = replace(flow, quotas={QUEUE: QuotaAhead(rate=Rate(100.0, 0.0))})
    assert told(ahead(1000), slow).expected > 1000, "the wait for workers is longer"


def test_tokens_that_nobody_takes_do_not_add_up() -> None:
    """One worker is free every six seconds; a bucket holds one second's starts."""
    flow = Flow(serving(1), (*runs(1), *HOLDS), quotas={QUEUE: QuotaAhead(rate=Rate(0.1, 0.0))})
    assert told(ahead(9), flow).expected > 95


def test_a_quota_of_running_documents_shares_fewer_workers() -> None:
    flow = Flow(serving(8), (*runs(2), *HOLDS))
    free = told(ahead(10), flow)
    limited = told(ahead(10), replace(flow, quotas={QUEUE: QuotaAhead(max_running=2)}))
    assert limited.expected > 30 > 13 > free.expected


@pytest.mark.hypothesis
@given(
    st.integers(0, 60),
    st.floats(0, 1e4),
    st.booleans(),
    st.integers(1, 64),
    st.lists(
        st.builds(Hold, st.just(QUEUE), seconds, seconds.map(float.__neg__), st.none()), max_size=9
    ),
    st.lists(
        st.builds(RecentArrival, seconds, st.floats(0, 1e4), seconds, st.just(3), st.just(QUEUE)),
        max_size=9,
    ),
    st.lists(st.tuples(seconds, seconds), max_size=20),
)
def test_whatever_is_known_the_range_is_in_order(
    documents: int,
    behind: float,
    is_closing: bool,
    workers: int,
    running: list[Hold],
    arrived: list[RecentArrival],
    finished: list[tuple[float, float]],
) -> None:
    question = replace(ahead(documents, behind), is_closing=is_closing)
    ended = (Hold(QUEUE, estimate, -took - 1.0, -1.0) for estimate, took in finished)
    flow = Flow(serving(workers), (*running, *ended), tuple(arrived))
    result = told(question, flow)
    assert result == told(question, flow), "the same question has the same answer"
    assert 0 <= result.low <= result.expected <= result.high < float("inf")
