"""The simulator against a slow one: a plain list, looked through from end to end at each claim."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profiles import examples
from msgspec.structs import replace

from fairlead.errors import InvalidSetting
from fairlead.model.customers import Check, Counter
from fairlead.policy.classic import ClassicPolicy, FifoPolicy, Policy, Reset
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.simulate import Run, simulate
from fairlead.simulation.trace import Arrival

STAIRCASE = [1] * 3 + [2] * 2 + [3] * 2 + [4] * 2 + [5] * 2 + [6] * 2 + [7] * 2 + [8] * 6 + [9] * 9
BOUNDS = (-2, -4, -6, -8, -10, -12, -14, -20)


@dataclass
class Setup:
    """What the oracle knows of the rules, in plain numbers."""

    interval: float = 1500.0
    reset: Reset = "idle"
    fifo: bool = False
    workers: int = 1
    after: float | None = None
    share: int = 4

    def run(self, arrivals: list[Arrival]) -> list[Run]:
        policy: Policy = (
            FifoPolicy() if self.fifo else ClassicPolicy(self.interval, reset=self.reset)
        )
        return simulate(arrivals, policy, self.workers, self.lane())

    def lane(self) -> OverdueLane | None:
        return None if self.after is None else OverdueLane(after=self.after, share=self.share)


@dataclass
class Doc:
    row: int
    customer: str
    moment: float
    seconds: float
    count: int
    priority: int
    started: float | None = None
    finished: float = math.inf
    lane: bool = False


def checked(arrivals: list[Arrival], setup: Setup) -> list[Doc]:
    """Counts and priorities as MISSION defines them, and the times; in order of arrival."""
    record: dict[str, tuple[int, float, float]] = {}
    docs = []
    for row, arrival in enumerate(arrivals):
        name, at = arrival.customer, arrival.at
        if name not in record:
            count, stored, moment = 0, at, at
        else:
            count, stored, moment = record[name]
            if at - stored > setup.interval:
                count, stored = 0, at
            else:
                count, stored = count - 1, stored if setup.reset == "window" else max(stored, at)
            moment = max(moment, at)
        record[name] = count, stored, moment
        shown = 0 if setup.fifo else count
        level = 1 + sum(shown < bound for bound in BOUNDS)
        docs.append(Doc(row, name, moment, arrival.seconds, shown, level))
    return sorted(docs, key=lambda doc: (doc.moment, doc.row))


class Oracle:
    """O(n²) and obvious."""

    def __init__(self, arrivals: list[Arrival], setup: Setup) -> None:
        self.setup = setup
        self.docs = checked(arrivals, setup)
        self.last: dict[str, float] = {}
        self.credit = 0

    def run(self) -> list[Run]:
        now = -math.inf
        while any(doc.started is None for doc in self.docs):
            now = self.next_moment(now)
            while self.working(now) < self.setup.workers and (waiting := self.waiting(now)):
                self.start(waiting, now)
        return [
            Run(doc.count, doc.priority, doc.started or 0.0, doc.finished, doc.lane)
            for doc in sorted(self.docs, key=lambda doc: doc.row)
        ]

    def next_moment(self, now: float) -> float:
        ends = [doc.finished for doc in self.docs if doc.started is not None]
        return min(time for time in [*ends, *(doc.moment for doc in self.docs)] if time > now)

    def working(self, now: float) -> int:
        return sum(doc.started is not None and doc.finished > now for doc in self.docs)

    def waiting(self, now: float) -> list[Doc]:
        return [doc for doc in self.docs if doc.started is None and doc.moment <= now]

    def start(self, waiting: list[Doc], now: float) -> None:
        doc = self.overdue(waiting, now)
        if doc is None:
            doc = min(waiting, key=lambda doc: (doc.priority, doc.moment, doc.row))
            self.credit = min(self.setup.share - 1, self.credit + 1)
        else:
            doc.lane = True
            self.credit -= self.setup.share - 1
        doc.started, doc.finished = now, now + doc.seconds
        self.last[doc.customer] = now

    def overdue(self, waiting: list[Doc], now: float) -> Doc | None:
        if self.setup.after is None or self.credit < self.setup.share - 1:
            return None
        # `waiting` is in order of arrival, so the first of each customer is its oldest.
        oldest = {doc.customer: doc for doc in reversed(waiting)}.values()
        due = [
            (since, self.docs.index(doc), doc)
            for doc in oldest
            for since in [max(doc.moment, self.last.get(doc.customer, doc.moment))]
            if now - self.setup.after > since
        ]
        return min(due, key=lambda entry: entry[:2])[2] if due else None


def arrival(at: float, customer: str, seconds: float) -> Arrival:
    return Arrival(at, customer, seconds, at_text=repr(at))


arrivals_lists = st.lists(
    st.builds(
        arrival,
        st.integers(0, 40).map(float),
        st.sampled_from("abcd"),
        st.integers(0, 6).map(float),
    ),
    min_size=1,
    max_size=60,
)
bursts = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from("abc"), st.integers(1, 14), st.integers(0, 3)),
    min_size=1,
    max_size=6,
).map(
    lambda several: [
        arrival(float(at), name, float(seconds))
        for at, name, number, seconds in several
        for _ in range(number)
    ]
)
traces = arrivals_lists | bursts
setups = st.builds(
    Setup,
    interval=st.sampled_from([0.0, 1.0, 3.0, 10.0, 1500.0]),
    reset=st.sampled_from(["idle", "window"]),
    fifo=st.sampled_from([False, False, False, True]),
    workers=st.integers(1, 4),
    after=st.sampled_from([0.0, 1.0, 4.0, None, 12.0]),
    share=st.sampled_from([2, 3, 4]),
)


@settings(max_examples=examples(400))
@given(traces, setups)
def test_simulator_and_oracle_agree(trace: list[Arrival], setup: Setup) -> None:
    assert setup.run(trace) == Oracle(trace, setup).run()


@given(traces, st.integers(1, 4))
def test_fifo_starts_in_order_of_arrival(trace: list[Arrival], workers: int) -> None:
    runs = Setup(fifo=True, workers=workers).run(trace)
    started = [runs[doc.row].started for doc in checked(trace, Setup())]
    assert started == sorted(started)


@given(traces, setups)
def test_no_worker_idles_while_a_document_waits(trace: list[Arrival], setup: Setup) -> None:
    runs = setup.run(trace)
    docs = checked(trace, setup)
    for doc in docs:
        run = runs[doc.row]
        assert run.started >= doc.moment
        if run.started > doc.moment:
            # It waited, so just before its start all workers were at something.
            ends = sorted({other.finished for other in runs if other.finished < run.started})
            just_before = max([doc.moment, *(end for end in ends if end > doc.moment)])
            busy = sum(other.started <= just_before < other.finished for other in runs)
            assert busy == setup.workers


@given(traces, setups)
def test_never_more_at_once_than_workers(trace: list[Arrival], setup: Setup) -> None:
    runs = setup.run(trace)
    for run in runs:
        assert sum(o.started <= run.started < o.finished for o in runs) <= setup.workers


@given(traces, setups, st.permutations("abcd"))
def test_names_of_customers_do_not_matter(
    trace: list[Arrival], setup: Setup, names: list[str]
) -> None:
    new = dict(zip("abcd", names, strict=True))
    renamed = [row._replace(customer=new[row.customer]) for row in trace]
    assert setup.run(renamed) == setup.run(trace)


@given(traces, setups, st.integers(-100_000, 100_000))
def test_the_time_of_day_does_not_matter(trace: list[Arrival], setup: Setup, shift: int) -> None:
    shifted = setup.run([row._replace(at=row.at + shift) for row in trace])
    back = [
        Run(run.count, run.priority, run.started - shift, run.finished - shift, run.lane)
        for run in shifted
    ]
    assert back == setup.run(trace)


@given(traces, setups)
def test_of_every_prefix_of_starts_the_lane_gets_at_most_its_share(
    trace: list[Arrival], setup: Setup
) -> None:
    runs = sorted(setup.run(trace), key=lambda run: run.started)
    total = taken = 0
    # The order of starts at the same time is unknown, so all starts of a time are counted.
    for _, several in groupby(runs, key=lambda run: run.started):
        group = list(several)
        total, taken = total + len(group), taken + sum(run.lane for run in group)
        assert taken * setup.share <= total


@pytest.mark.parametrize("workers", [1, 3])
def test_a_customer_alone_climbs_the_staircase_in_order(workers: int) -> None:
    trace = [arrival(0.0, "acme", 2.0) for _ in STAIRCASE]
    runs = Setup(workers=workers, after=1500.0).run(trace)
    assert [run.priority for run in runs] == STAIRCASE
    assert [run.count for run in runs] == [-place for place in range(len(STAIRCASE))]
    assert [run.started for run in runs] == [2.0 * (n // workers) for n in range(len(runs))]


def starving() -> list[Arrival]:
    """Sixty documents of one customer, and then a newcomer every second for a long time."""
    sunk = [arrival(0.0, "sunk", 1.0) for _ in range(60)]
    return sunk + [arrival(float(at), f"new-{at}", 1.0) for at in range(1, 2_000)]


def test_without_the_lane_priority_nine_starves() -> None:
    runs = Setup().run(starving())
    last = runs[59]
    assert last.priority == 9
    assert last.started >= 1_999
    assert not any(run.lane for run in runs)


def test_with_the_lane_priority_nine_gets_through() -> None:
    runs = Setup(after=100.0).run(starving())
    sunk = runs[:60]
    assert any(run.lane for run in sunk)
    # One start at least in each 100 seconds and a few claims: the lane's promise.
    starts = sorted(run.started for run in sunk)
    assert max(later - earlier for earlier, later in pairwise(starts)) <= 105


def test_exactly_the_overdue_time_is_not_overdue() -> None:
    trace = [arrival(0.0, "busy", 4.0)] * 30 + [arrival(1.0, "late", 4.0)] * 30
    setup = Setup(after=39.0)
    assert setup.run(trace) == Oracle(trace, setup).run()


def test_a_clock_that_goes_back_neither_resets_nor_overtakes() -> None:
    trace = [arrival(at, "acme", 1.0) for at in (100.0, 40.0, 1570.0, 3100.0)]
    runs = Setup().run(trace)
    assert [run.count for run in runs] == [0, -1, -2, 0]
    assert [run.started for run in runs] == [100.0, 101.0, 1570.0, 3100.0]


def test_ties_in_the_lane_go_to_the_earlier_document() -> None:
    busy = [arrival(0.0, "busy", 1.0)] * 3
    tied = [arrival(0.0, name, 1.0) for name in ("zeta", "alpha") for _ in range(10)]
    setup = Setup(after=2.0, workers=1)
    runs = setup.run(busy + tied)
    assert runs == Oracle(busy + tied, setup).run()
    assert [run.lane for run in runs].count(True) > 0


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_are_refused(workers: int) -> None:
    with pytest.raises(InvalidSetting, match="workers must be a whole number from 1"):
        simulate([arrival(0.0, "acme", 1.0)], FifoPolicy(), workers, None)


@pytest.mark.full
@pytest.mark.slow
def test_a_hundred_thousand_rows_take_seconds_not_minutes() -> None:
    trace = [arrival(float(n // 7), f"c{n * n % 401}", 0.3) for n in range(100_000)]
    runs = Setup(workers=2, after=1500.0).run(trace)
    assert len(runs) == len(trace)


class Inclusive(ClassicPolicy):
    """Wrong: exactly the interval resets."""

    def is_reset(self, counter: Counter, *, now: float) -> bool:
        return now - counter.updated_at >= self.reset_interval


class ForgetsTheLatest(ClassicPolicy):
    """Wrong: the stored time goes back with the clock."""

    def check(self, counter: Counter | None, *, now: float) -> Check:
        check = super().check(counter, now=now)
        return replace(check, counter=Counter(check.count, now))


class BoundlessLane(OverdueLane):
    """Wrong: credit is saved up without end."""

    def after_claim(self, credit: int, *, through_lane: bool) -> int:
        return credit - (self.share - 1) if through_lane else credit + 1


class FreeLane(OverdueLane):
    """Wrong: the lane is always open."""

    def is_open(self, credit: int) -> bool:
        return True


def telling_trace() -> list[Arrival]:
    """A trace on which each of the broken rules shows."""
    first = [arrival(0.0, "big", 3.0) for _ in range(30)]
    small = [arrival(float(at), "small", 2.0) for at in (1, 1, 11, 21, 22)]
    steps = [arrival(float(at), "steps", 1.0) for at in range(0, 90, 10)]
    back = [arrival(float(at), "back", 1.0) for at in (60, 45, 66, 66, 100)]
    late = [arrival(2.0, f"late-{n}", 1.0) for n in range(3) for _ in range(9)]
    stream = [arrival(float(at), f"new-{at}", 3.0) for at in range(5, 200, 3)]
    return first + small + steps + back + late + stream


TRUE = Setup(interval=10.0, after=15.0)
BROKEN: dict[str, tuple[Policy, OverdueLane]] = {
    "exactly the interval resets": (Inclusive(10.0), OverdueLane(15.0)),
    "thresholds one lower": (ClassicPolicy(10.0, [b - 1 for b in BOUNDS]), OverdueLane(15.0)),
    "thresholds one higher": (ClassicPolicy(10.0, [b + 1 for b in BOUNDS]), OverdueLane(15.0)),
    "the stored time goes back": (ForgetsTheLatest(10.0), OverdueLane(15.0)),
    "the other reset": (ClassicPolicy(10.0, reset="window"), OverdueLane(15.0)),
    "credit without limit": (ClassicPolicy(10.0), BoundlessLane(15.0)),
    "a lane without credit": (ClassicPolicy(10.0), FreeLane(15.0)),
    "exactly the time is overdue": (ClassicPolicy(10.0), OverdueLane(15.0 - 1e-9)),
    "another share": (ClassicPolicy(10.0), OverdueLane(15.0, share=5)),
}


def test_the_true_rules_agree_on_the_telling_trace() -> None:
    trace = telling_trace()
    assert TRUE.run(trace) == Oracle(trace, TRUE).run()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_caught(name: str) -> None:
    trace = telling_trace()
    policy, lane = BROKEN[name]
    assert simulate(trace, policy, 1, lane) != Oracle(trace, TRUE).run()


def test_a_missing_lane_is_caught() -> None:
    trace = telling_trace()
    assert simulate(trace, ClassicPolicy(10.0), 1, None) != Oracle(trace, TRUE).run()
