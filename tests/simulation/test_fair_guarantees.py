"""What the fair policy promises, in the simulator, with exact numbers.

Where a promise needs a condition, a test without it shows the smallest case known that breaks it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import pytest
from fair_recorder import (
    Accepted,
    History,
    Taken,
    lengths,
    rest,
    times,
    traces,
    watched,
    weights,
    worlds,
)
from fairmodel import Row, World
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profiles import examples

from fairlead.policy.classic import ClassicPolicy

true_costs = traces(st.none())
quick = settings(max_examples=examples(200))


def row(
    at: int, customer: str, seconds: int, weight: str = "1", estimate: int | None = None
) -> Row:
    cost = None if estimate is None else Fraction(estimate)
    return Row(Fraction(at), customer, Fraction(seconds), Fraction(weight), cost)


def longest(history: History) -> Fraction:
    return max(doc.seconds for doc in history.accepted)


@quick
@given(traces(), worlds)
def test_no_worker_idles_while_a_document_waits(rows: list[Row], world: World) -> None:
    accepted = watched(rows, world).accepted
    for doc in accepted:
        ends = [other.finished for other in accepted if doc.at < other.finished < doc.started]
        for moment in {doc.at, *ends} if doc.started > doc.at else set():
            busy = sum(other.started <= moment < other.finished for other in accepted)
            assert busy == world.workers


@quick
@given(traces(), worlds)
def test_outside_the_lane_the_lowest_tag_goes_first(rows: list[Row], world: World) -> None:
    waiting: dict[int, Accepted] = {}
    for event in watched(rows, world).events:
        if isinstance(event, Accepted):
            waiting[event.number] = event
            continue
        first = min(waiting.values(), key=lambda doc: (doc.tag, doc.number))
        assert event.lane or first.number == event.document
        del waiting[event.document]


@quick
@given(traces(), worlds)
def test_within_a_customer_first_come_first_served(rows: list[Row], world: World) -> None:
    history = watched(rows, world)
    order = defaultdict(list)
    for claim in history.claims():
        order[history.accepted[claim.document].customer].append(claim.document)
    assert all(numbers == sorted(numbers) for numbers in order.values())


@quick
@given(traces(), worlds)
def test_nothing_submitted_after_the_clock_reached_a_tag_starts_first(
    rows: list[Row], world: World
) -> None:
    waiting: dict[int, Accepted] = {}
    behind: dict[int, set[int]] = {}
    for event in watched(rows, world).events:
        if isinstance(event, Accepted):
            reached = {doc.number for doc in waiting.values() if doc.tag <= event.clock}
            behind[event.number] = reached
            waiting[event.number] = event
        else:
            assert event.lane or not behind[event.document] & waiting.keys()
            del waiting[event.document]


def g1_is_kept(history: History) -> bool:
    """Wait (submission to start) of each document, against G1 with its τ and Q."""
    world = history.world
    factor = Fraction(world.share, world.share - 1) if world.after is not None else Fraction(1)
    for doc in history.accepted:
        reached = history.reaches(doc)
        # Started before the clock came there: the wait is below τ, whatever τ is.
        if reached is not None:
            work = history.unfinished(reached) + longest(history) + world.unit
            bound = reached - doc.at + factor * work / world.workers
            if doc.started - doc.at > bound:
                return False
    return True


@quick
@given(true_costs, worlds)
def test_g1_holds_where_estimates_are_true(rows: list[Row], world: World) -> None:
    assert g1_is_kept(watched(rows, world))


@quick
@given(traces(), worlds)
def test_g1_holds_for_any_estimates_without_the_lane(rows: list[Row], world: World) -> None:
    assert g1_is_kept(watched(rows, replace(world, after=None)))


def test_g1_is_broken_by_a_lane_that_is_told_wrong_costs() -> None:
    """The lane reckons with estimates: 1 s announced, 100 s taken, and v's second is overtaken.

    The clock reaches its tag 1 at second 2, when 18 s of work are left; but it starts at 219.
    """
    first = [row(0, "p", 18), row(0, "v", 1), row(0, "v", 1)]
    told = [*first, row(3, "x", 100, "1", 1), row(3, "y", 100, "1", 1)]
    world = World(after=Fraction(0))
    history = watched(told, world)
    late = history.accepted[2]
    assert history.reaches(late) == 2
    assert history.unfinished(Fraction(2)) == 18
    assert late.started == 219
    assert not g1_is_kept(history)  # 2 + 4/3·(18 + 100 + 6) < 168
    assert g1_is_kept(watched([replace(each, estimate=None) for each in told], world))


class Wait(NamedTuple):
    """A customer's wait for a start, and who else had something waiting when it began."""

    seconds: Fraction
    customers: int
    weight: Fraction


def waits(history: History) -> list[Wait]:
    waiting: dict[str, list[Accepted]] = defaultdict(list)
    began: dict[str, tuple[Fraction, int, Fraction]] = {}
    found = []
    for event in history.events:
        doc = event if isinstance(event, Accepted) else history.accepted[event.document]
        line = waiting[doc.customer]
        if isinstance(event, Taken):
            since, customers, weight = began[doc.customer]
            found.append(Wait(event.at - since, customers, weight))
            line.remove(doc)
        else:
            line.append(doc)
        if line and (isinstance(event, Taken) or len(line) == 1):
            others = [each[-1].weight for each in waiting.values() if each]
            began[doc.customer] = event.at, len(others), sum(others, Fraction(0))
    return found


def g2_bound(history: History, lane_claims: Fraction | int, a_claim: int) -> Fraction:
    """T + (a_claim · lane_claims + 1)·L/W + L."""
    world, most = history.world, longest(history)
    assert world.after is not None
    return world.after + (a_claim * lane_claims + 1) * most / world.workers + most


with_lane = worlds.flatmap(
    lambda world: st.sampled_from([0, 1, 4]).map(
        lambda after: replace(world, after=Fraction(after))
    )
)


@quick
@given(true_costs, with_lane)
def test_g2_holds_with_one_more_and_the_number_of_customers(rows: list[Row], world: World) -> None:
    """A start within T + ((m+1)·N + 1)·L/W + L; N customers had something waiting."""
    history = watched(rows, world)
    for wait in waits(history):
        assert wait.seconds <= g2_bound(history, wait.customers, world.share + 1)


def test_g2_is_broken_when_weights_stand_for_customers() -> None:
    """Weights below 1 add up to less than one customer, and the lane serves customers."""
    rows = [row(0, "x", 10, "1/1000")] * 3 + [row(0, "o", 10, "1/10")] * 4
    history = watched(rows, World(unit=Fraction(1), after=Fraction(0)))
    late = [w for w in waits(history) if w.seconds > g2_bound(history, w.weight, 4)]
    assert [wait.seconds for wait in late] == [40]
    assert g2_bound(history, late[0].weight, 4) == Fraction("24.04")


def crowd(customers: int, sunk: int, short: int, world: World) -> History:
    """Customers whose second document of `sunk` seconds is tagged far behind o's many."""
    rows = [row(0, f"x{n}", sunk, "1/1000") for n in range(customers) for _ in range(2)]
    rows += [row(0, "o", short, "100")] * ((world.share + 3) * customers)
    return watched(rows, world)


def test_g2_is_broken_by_credit_that_the_cap_cuts_off() -> None:
    """A lane claim of 50 s needs 150 s of others: four claims of 49 s, of which 46 s are cut off.

    So with m = 4 a turn of the lane takes 246 s of work, not 200.
    """
    history = crowd(8, 50, 49, World(unit=Fraction(1), after=Fraction(0)))
    late = [wait for wait in waits(history) if wait.seconds > g2_bound(history, wait.customers, 4)]
    worst = max(late, key=lambda wait: wait.seconds)
    assert worst.seconds == 1722
    assert worst.customers == 8
    assert g2_bound(history, 8, 4) == 1700
    assert all(wait.seconds <= g2_bound(history, wait.customers, 5) for wait in waits(history))


@settings(max_examples=examples(60))
@given(st.integers(1, 10), st.integers(1, 12), st.integers(1, 12), with_lane)
def test_g2_with_one_more_holds_in_a_crowd(
    customers: int, sunk: int, short: int, world: World
) -> None:
    history = crowd(customers, sunk, short, world)
    for wait in waits(history):
        assert wait.seconds <= g2_bound(history, wait.customers, world.share + 1)


def largest_gap(history: History, first: str, second: str) -> Fraction:
    """The most by which D/w of two customers differ, over all spans in which both wait.

    D is the work of documents started in the span; a span runs from claim to claim, and before
    each claim in it both customers have something waiting.
    """
    lead, high, low, gap = Fraction(0), Fraction(0), Fraction(0), Fraction(0)
    present: dict[str, int] = defaultdict(int)
    for event in history.events:
        if isinstance(event, Accepted):
            present[event.customer] += 1
            continue
        doc = history.accepted[event.document]
        if not (present[first] and present[second]):
            lead = high = low = Fraction(0)
        elif doc.customer in (first, second):
            lead += (1 if doc.customer == first else -1) * doc.seconds / doc.weight
            gap = max(gap, lead - low, high - lead)
            high, low = max(high, lead), min(low, lead)
        present[doc.customer] -= 1
    return gap


def g3_bound(history: History, *names: str) -> Fraction:
    return sum(
        (
            max(doc.seconds / doc.weight for doc in history.accepted if doc.customer == name)
            for name in names
        ),
        Fraction(0),
    )


backlogs = st.tuples(weights, st.lists(lengths, min_size=1, max_size=12))


@quick
@given(backlogs, backlogs, true_costs, worlds)
def test_g3_holds_between_backlogs_of_one_moment_without_the_lane(
    one: tuple[Fraction, list[Fraction]],
    two: tuple[Fraction, list[Fraction]],
    others: list[Row],
    world: World,
) -> None:
    """D is the work of documents started; other customers come and go."""
    start = Fraction(-1)
    rows = [Row(start, "f", seconds, one[0]) for seconds in one[1]]
    rows += [Row(start, "g", seconds, two[0]) for seconds in two[1]]
    history = watched(rows + others, replace(world, after=None))
    assert largest_gap(history, "f", "g") <= g3_bound(history, "f", "g")


def test_g3_is_broken_by_the_lane() -> None:
    """One start in each T, whatever the weight: a customer of weight 1/100 gets far more."""
    rows = [row(0, "f", 1, "1/100")] * 9 + [row(0, "g", 1)] * 60
    lane = watched(rows, World(unit=Fraction(1), after=Fraction(3)))
    none = watched(rows, World(unit=Fraction(1), after=None))
    assert g3_bound(lane, "f", "g") == 101
    assert largest_gap(none, "f", "g") <= 101
    assert largest_gap(lane, "f", "g") > 700


def test_g3_is_broken_when_the_clock_outruns_a_long_document() -> None:
    """While h works, the clock passes f's finish tag, and f's next document is tagged behind it.

    g, whose backlog was tagged before, gets 25 documents between two of f.
    """
    rows = [row(0, "h", 100), row(1, "f", 1), *[row(1, "g", 1)] * 30, row(99, "f", 1)]
    history = watched(rows, World(after=None))
    assert g3_bound(history, "f", "g") == 2
    assert largest_gap(history, "f", "g") == 25


def test_g3_is_broken_in_work_done_by_many_workers() -> None:
    """What is started counts in full; of f's long documents that are at work, little is done."""
    rows = [row(0, "f", 100)] * 6 + [row(0, "g", 1)] * 500
    history = watched(rows, World(workers=8, after=None))
    at = Fraction(50)
    done = {
        name: sum(doc.seconds - rest(doc, at) for doc in history.accepted if doc.customer == name)
        for name in "fg"
    }
    assert g3_bound(history, "f", "g") == 101
    assert done["g"] - done["f"] > 150
    assert largest_gap(history, "f", "g") <= 101


def test_g3_is_broken_in_true_seconds_by_wrong_estimates() -> None:
    """Tags are fixed at submission: what was announced ten times too long is served as such."""
    rows = [row(0, "f", 1, "1", 10)] * 9 + [row(0, "g", 1)] * 90
    assert largest_gap(watched(rows, World(after=None)), "f", "g") > 70


@quick
@given(true_costs, with_lane)
def test_the_lane_keeps_to_its_share(rows: list[Row], world: World) -> None:
    """Of the work started so far, at most 1/m, and what one document costs above a unit."""
    history = watched(rows, world)
    total = lane = beyond = Fraction(0)
    for claim in history.claims():
        cost = history.accepted[claim.document].cost
        total += cost
        if claim.lane:
            lane += cost
            beyond = max(beyond, cost - world.unit)
        # Credit c: (m-1)·lane = others − c·(m-1) at most, and c never falls below −beyond.
        assert world.share * lane <= total + (world.share - 1) * beyond


@quick
@given(traces(), worlds, st.permutations("abcd"))
def test_names_of_customers_do_not_matter(rows: list[Row], world: World, names: list[str]) -> None:
    new = dict(zip("abcd", names, strict=True))
    renamed = [replace(each, customer=new[each.customer]) for each in rows]
    assert watched(renamed, world).runs == watched(rows, world).runs


@quick
@given(traces(), worlds, st.integers(-100_000, 100_000))
def test_the_time_of_day_does_not_matter(rows: list[Row], world: World, shift: int) -> None:
    shifted = watched([replace(each, at=each.at + shift) for each in rows], world).runs
    back = [
        replace(run, started=run.started - shift, finished=run.finished - shift) for run in shifted
    ]
    assert back == watched(rows, world).runs


@quick
@given(st.lists(st.tuples(times, lengths, weights), min_size=1, max_size=30), worlds)
def test_alone_is_first_come_first_served(
    several: list[tuple[Fraction, Fraction, Fraction]], world: World
) -> None:
    rows = [Row(at, "acme", seconds, weight) for at, seconds, weight in several]
    order = [claim.document for claim in watched(rows, world).claims()]
    assert order == list(range(len(rows)))


@pytest.mark.parametrize("before", [0, 7])
def test_a_burst_of_unit_costs_is_the_classic_staircase(before: int) -> None:
    earlier = [row(-500, "other", 6)] * before
    runs = watched(earlier + [row(0, "acme", 6)] * 30, World()).runs[before:]
    counter, classic = None, []
    for _ in runs:
        check = ClassicPolicy().check(counter, now=0.0)
        counter = check.counter
        classic.append((check.count, check.priority))
    assert [(run.count, run.priority) for run in runs] == classic
