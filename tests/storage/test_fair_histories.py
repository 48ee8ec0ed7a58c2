"""Random histories with both policies, accounts, pauses and switches: the books stay true."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storekit import CRASHED, DAMAGED, DONE, STORES, House, histories, house, submit

from fairlead.errors import InvalidTransition
from fairlead.model.documents import Claim
from fairlead.model.states import State
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules

RULES = Rules(
    policy="fair",
    unit=0.05,
    reset_interval=20.0,
    lane=OverdueLane(after=8.0, share=3),
    retry=RetryRule(max_attempts=3, first_delay=1.0, longest_delay=2.0),
    lease=30.0,
)
NAMES = ("acme", "globex", "initech")
names = st.sampled_from(NAMES)
steps = st.one_of(
    st.tuples(st.just("submit"), names, st.integers(1, 4), st.booleans()),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("finish"), st.sampled_from([DONE, DAMAGED, CRASHED]), st.floats(0.1, 9)),
    st.tuples(st.just("release")),
    st.tuples(st.just("decide"), st.sampled_from(["cancel", "retry"]), st.integers(0, 20)),
    st.tuples(st.just("pause"), names, st.booleans()),
    st.tuples(
        st.just("set"),
        names,
        st.fixed_dictionaries(
            {},
            optional={
                "weight": st.sampled_from([0.5, 1.0, 3.0]),
                "account": st.sampled_from([None, "one bill", "another"]),
                "processing_cap": st.sampled_from([None, None, 1]),
            },
        ),
    ),
    st.tuples(st.just("reset"), names),
    st.tuples(st.just("switch"), st.sampled_from(["classic", "fair"])),
    st.tuples(st.just("advance"), st.sampled_from([0.5, 3.0, 9.0, 21.0, 31.0])),
    st.tuples(st.just("attend"), st.integers(1, 4)),
)


class Day:
    """One history, step by step."""

    def __init__(self, where: House) -> None:
        self.where, self.store = where, where.store
        self.held: list[Claim] = []
        self.ids: list[str] = []
        for name in NAMES:
            self.store.add_customer(name)

    def submit(self, name: str, number: int, urgent: bool) -> None:
        self.ids += [each.id for each in submit(self.store, name, number, urgent=urgent)]

    def claim(self, number: int) -> None:
        self.held += self.store.claim_for(["worker"] * number)

    def finish(self, outcome: Any, seconds: float) -> None:
        if self.held:
            self.store.finish(self.held.pop(0), outcome._replace(seconds=seconds))

    def release(self) -> None:
        if self.held:
            self.store.release([self.held.pop()])

    def decide(self, what: str, back: int) -> None:
        if self.ids:
            with suppress(InvalidTransition):
                getattr(self.store, what)(self.ids[back % len(self.ids)])

    def pause(self, name: str, paused: bool) -> None:
        (self.store.pause if paused else self.store.resume)(name)

    def set(self, name: str, changes: dict[str, Any]) -> None:
        self.store.set_customer(name, **changes)

    def reset(self, name: str) -> None:
        self.store.reset(name)

    def switch(self, policy: str) -> None:
        self.where.rules.change(policy=policy)

    def advance(self, seconds: float) -> None:
        self.where.clock.advance(seconds)

    def attend(self, workers: int) -> None:
        self.store.attend("engine", workers)

    def end(self) -> None:
        """Let everything run to its end."""
        for name in NAMES:
            self.store.resume(name)
            self.store.set_customer(name, weight=1.0, account=None, processing_cap=None)
        for _ in range(6 * len(self.ids) + 6):
            self.where.clock.advance(31.0)  # leases and delays are over
            for claim in self.store.claim_for(["last"] * 4):
                self.store.finish(claim, DONE._replace(seconds=1.0))


def is_in_order(day: Day) -> bool:
    """Whether the places of each customer's waiting documents are those of their policy."""
    policy = day.store.policy()
    waiting = [day.store.document(each) for each in day.ids]
    return all(each.policy == f"{policy}/1" for each in waiting if each.state is State.WAITING)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", STORES)
def test_the_books_are_true_after_every_step_and_all_comes_to_an_end(name: str) -> None:
    @settings(max_examples=histories(STORES[name], 100))
    @given(st.lists(steps, min_size=5, max_size=40))
    def live(history: list[tuple[Any, ...]]) -> None:
        with house(STORES[name], RULES) as where:
            day = Day(where)
            for step, *values in history:
                getattr(day, step)(*values)
                assert where.store.problems() == []
            assert is_in_order(day)
            day.end()
            left = [each for each in day.ids if where.store.document(each).state.is_pending]
            assert left == []
            assert where.store.problems() == []
            assert where.store.fairness().accounts == ()

    live()
