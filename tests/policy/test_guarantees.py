"""Searches for runs that break the bounds of docs/discussion/fair.md#the-bounds (G1 to G4).

`QUEUES` names every queue that is searched: the production queue joins by an adapter.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from guarantees import FOR_FAIR
from policy_queue import PolicyQueue
from queue_model import Document, PipelineSettings, QueueModel, QueueSettings, Record
from trace_driver import Event
from trace_search import QueueFactory, Trace, TraceMaker, Worst, check_trace, search

SEED = 2
"""Chosen among six: its short search comes closest to the bounds. The long one takes others."""

QUEUES: dict[str, QueueFactory] = {"model": QueueModel, "queue": PolicyQueue}
POLICIES = ("fair", "classic")

every_queue = pytest.mark.parametrize("factory", QUEUES.values(), ids=QUEUES)
policies = pytest.mark.parametrize("policy", POLICIES)


def assert_kept(worst: dict[str, Worst]) -> None:
    for name, result in worst.items():
        assert result.ratio <= 1, f"{name}: {result.ratio} of the bound in {result.trace}"


@every_queue
@policies
def test_a_short_search_finds_no_violation(factory: QueueFactory, policy: str) -> None:
    """It comes close to the bounds: bounds that no trace comes near would show nothing."""
    worst = search(factory, policy, steps=90, seed=SEED)
    assert_kept(worst)
    assert worst["lane share"].ratio == 1
    if policy == "fair":
        assert all(worst[name].ratio > 0.9 for name in FOR_FAIR)


@pytest.mark.faults
@every_queue
@policies
@pytest.mark.parametrize("seed", range(3, 6))
def test_a_long_search_finds_no_violation(factory: QueueFactory, policy: str, seed: int) -> None:
    assert_kept(search(factory, policy, steps=1000, seed=seed))


@every_queue
@policies
def test_full_pipelines_are_skipped_and_nothing_else_is(factory: QueueFactory, policy: str) -> None:
    """The bounds on waiting do not hold for documents that wait for their pipeline."""
    maker = TraceMaker(policy, 1, {"slow": PipelineSettings(max_running=1)})
    for _ in range(25):
        ratios = check_trace(factory, maker.new())
        names = ("lane share", "work conserving", "allowed starts", "FIFO")
        assert all(ratios[name] <= 1 for name in names)


class DebtStays(QueueModel):
    def faded(self, debt: float, seconds: float, interval: float | None = None) -> float:
        return debt


class TagIsNotRaised(QueueModel):
    def raised(self, record: Record) -> float:
        return record.tag


class LaneIgnoresCredit(QueueModel):
    def lane_is_open(self) -> bool:
        return self.settings.share > 0


class LaneNeverOpens(QueueModel):
    def lane_is_open(self) -> bool:
        return False


class EverybodyIsBeyond(QueueModel):
    """Fair queueing without an allowance."""

    def new_place(self, record: Record, now: float) -> tuple[int, float]:
        had_place = record.place is not None
        return 1, record.tag if had_place else self.raised(record)


class ClockStandsStill(QueueModel):
    def clock_of(self, record: Record) -> float:
        return 0.0


class WeightIsIgnored(QueueModel):
    def weight_of(self, record: Record) -> float:
        return 1.0


class PlacesMoveBack(QueueModel):
    """An account is placed anew at every finish, also behind its old place."""

    def place_if_lower(self, record: Record, now: float) -> None:
        if record.place is not None:
            self.put(record, now)


class RefundsDoNotMoveForward(QueueModel):
    def place_if_lower(self, record: Record, now: float) -> None:
        pass


class CapIsIgnored(QueueModel):
    def set_cap(self, customer: str, cap: int | None, now: float) -> None:
        pass


class PauseIsIgnored(QueueModel):
    def pause(self, customer: str, now: float) -> None:
        pass


class ResumeGivesNoPlace(QueueModel):
    """A resumed customer gets no place until it submits again."""

    def resume(self, customer: str, now: float) -> None:
        self.customer(customer).paused = False

    def candidates(self, now: float, pipelines: object) -> list[Document]:
        placed = {key[0] for key, record in self.records.items() if record.place is not None}
        own = super().candidates(now, None)
        return [one for one in own if self.account_of(one.customer) in placed]


class NewestFirst(QueueModel):
    def next_by_fair(self, candidates: list[Document], overdue: str | None) -> Document:
        place = {one.customer.name: one for one in candidates}
        return super().next_by_fair(list(place.values()), overdue)


def burst(
    name: str, at: float, number: int, seconds: float = 1.0, estimate: float = 0.0
) -> list[Event]:
    event = Event(at, "submit", name, seconds=seconds, estimate=estimate or seconds)
    return [event] * number


def stream(names: list[str], every: float, seconds: float) -> list[Event]:
    """One document of each of these customers, one after another."""
    return [
        event
        for number, name in enumerate(names)
        for event in burst(name, 0.1 + every * number, 1, seconds)
    ]


def trace(*events: list[Event], workers: int = 1, **settings: float) -> Trace:
    some = QueueSettings(unit=1.0, allowance=8.0, interval=40.0, share=0)
    sequence = [event for part in events for event in part]
    is_setup = {"weight", "cap", "account"}
    setup = tuple(event for event in sequence if event.kind in is_setup)
    rest = tuple(event for event in sequence if event.kind not in is_setup)
    return Trace(replace(some, **settings), workers, setup, rest)  # type: ignore[arg-type]


NEWCOMERS = [f"newcomer {number}" for number in range(40)]

RETURNS = trace(
    burst("returning", 0.0, 3),
    burst("first", 100.0, 1, 5.0),
    burst("returning", 101.0, 1),
    burst("second", 102.0, 1, 5.0),
    burst("third", 103.0, 1, 5.0),
    interval=10.0,
)
BEYOND = trace(burst("early", 0.0, 60), burst("late", 20.0, 20), allowance=2.0)
WEIGHTED = trace(
    [Event(0.0, "weight", "heavy", weight=3.0)],
    burst("heavy", 0.0, 40),
    burst("light", 0.0, 40),
    allowance=2.0,
)
ALL_OVERDUE = trace(
    *(burst(name, 0.0, 10) for name in "abc"), share=4, overdue_after=2.0, allowance=2.0
)
STARVING = trace(
    burst("starving", 0.0, 10, 3.0),
    stream(["x", "y", "z"] * 40, 1.0, 1.0),
    interval=2.8,
    overdue_after=5.0,
    share=4,
    allowance=2.0,
)
BACKLOG = trace(*(burst(name, 0.0, 15) for name in "abc"), burst("newcomer", 20.5, 1))
UNDERESTIMATED = trace(
    burst("a", 0.0, 3, 5.0, estimate=0.2), stream(NEWCOMERS, 2.0, 5.0), workers=2, allowance=20.0
)
OVERESTIMATED = trace(
    burst("a", 0.0, 2, 0.2, estimate=5.0), stream(NEWCOMERS, 4.0, 5.0), allowance=20.0
)
CAPPED = trace([Event(0.0, "cap", "a", cap=1)], burst("a", 0.0, 4), workers=2)
PAUSED = trace([Event(0.0, "pause", "a")], burst("a", 1.0, 4), [Event(3.0, "resume", "a")])

MUTANTS: dict[type[QueueModel], tuple[str, Trace]] = {
    DebtStays: ("G1", RETURNS),
    EverybodyIsBeyond: ("G1", BACKLOG),
    PlacesMoveBack: ("G2", UNDERESTIMATED),
    RefundsDoNotMoveForward: ("G2", OVERESTIMATED),
    TagIsNotRaised: ("G3", BEYOND),
    ClockStandsStill: ("G3", BEYOND),
    WeightIsIgnored: ("G3", WEIGHTED),
    LaneNeverOpens: ("G4", STARVING),
    LaneIgnoresCredit: ("lane share", ALL_OVERDUE),
    CapIsIgnored: ("allowed starts", CAPPED),
    PauseIsIgnored: ("allowed starts", PAUSED),
    ResumeGivesNoPlace: ("work conserving", PAUSED),
    NewestFirst: ("FIFO", BEYOND),
}
mutants = pytest.mark.parametrize(
    ("mutant", "name", "trace"),
    [(mutant, *expected) for mutant, expected in MUTANTS.items()],
    ids=[mutant.__name__ for mutant in MUTANTS],
)


@mutants
def test_a_changed_rule_breaks_a_guarantee_that_the_rule_keeps(
    mutant: type[QueueModel], name: str, trace: Trace
) -> None:
    assert check_trace(mutant, trace)[name] > 1
    assert all(ratio <= 1 for ratio in check_trace(QueueModel, trace).values())


def test_classic_without_its_lane_lets_a_customer_starve() -> None:
    classic = replace(STARVING, settings=replace(STARVING.settings, policy="classic"))
    assert check_trace(LaneNeverOpens, classic)["G4"] > 1
    assert check_trace(QueueModel, classic)["G4"] <= 1


@pytest.mark.parametrize(
    "mutant",
    [DebtStays, EverybodyIsBeyond, TagIsNotRaised, WeightIsIgnored],
)
def test_the_search_finds_a_changed_rule_by_itself(mutant: type[QueueModel]) -> None:
    worst = search(mutant, "fair", steps=90, seed=SEED, stop_at_violation=True)
    assert any(result.violations for result in worst.values())
