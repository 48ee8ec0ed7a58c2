"""Claims and ends that come in groups do what they would do one after the other."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from storekit import CRASHED, DAMAGED, DONE, StoreFactory, StoreUnderTest, fresh_store, histories

from fairlead.model.documents import Claim, NewDocument, Outcome, Submission
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import PolicyName
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules

CUSTOMERS = ("acme", "globex", "initech")

ends = st.tuples(
    st.sampled_from([DONE, DONE, DAMAGED, CRASHED]),
    st.sampled_from([None, 0.5, 6.0, 40.0]),  # seconds
    st.integers(0, 2),  # parts
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"), st.sampled_from(CUSTOMERS), st.lists(st.booleans(), max_size=4)
        ),
        st.tuples(st.just("claim"), st.integers(1, 6)),
        st.tuples(st.just("finish"), st.lists(ends, min_size=1, max_size=6)),
        st.tuples(st.just("release"), st.integers(1, 4)),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 7.0, 31.0])),
        st.tuples(st.just("cap"), st.sampled_from(CUSTOMERS), st.sampled_from([None, 1, 2])),
    ),
    min_size=4,
    max_size=25,
)


class Life:
    """One history, with groups as such or taken apart."""

    def __init__(self, fresh: StoreUnderTest, *, apart: bool) -> None:
        self.store, self.clock, self.apart = fresh.store, fresh.clock, apart
        self.claims: list[Claim] = []
        self.numbers = count(1)
        self.store.attend("engine", 2)

    def new(self, *, urgent: bool = False) -> NewDocument:
        number = next(self.numbers)
        return NewDocument(f"{number:026d}", f"{number}.txt", 10, f"{number:064x}", urgent)

    def submit(self, customer: str, flags: list[bool]) -> None:
        if flags:
            self.store.submit(Submission(customer, tuple(self.new(urgent=flag) for flag in flags)))

    def claim(self, number: int) -> None:
        groups = [["worker"]] * number if self.apart else [["worker"] * number]
        for group in groups:
            self.claims += self.store.claim_for(group)

    def finish(self, ends: list[tuple[Outcome, float | None, int]]) -> None:
        taken, self.claims = self.claims[: len(ends)], self.claims[len(ends) :]
        outcomes = [(claim, self.outcome(*end)) for claim, end in zip(taken, ends, strict=False)]
        groups = [[outcome] for outcome in outcomes] if self.apart else [outcomes]
        for group in groups:
            self.store.finish_all(group)

    def outcome(self, outcome: Outcome, seconds: float | None, parts: int) -> Outcome:
        changed = outcome._replace(seconds=seconds)
        if outcome is not DONE:
            return changed
        return DONE._replace(seconds=seconds, parts=tuple(self.new() for _ in range(parts)))

    def release(self, number: int) -> None:
        taken, self.claims = self.claims[:number], self.claims[number:]
        self.store.release(taken)

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def cap(self, customer: str, cap: int | None) -> None:
        self.store.add_customer(customer)
        self.store.set_customer(customer, processing_cap=cap)

    def seen(self) -> Any:
        """All that shows of it, but to whose share the work counts that ends at a cap."""
        ids = [claim.id for claim in self.claims]
        fairness = self.store.fairness()
        fairness = replace(
            fairness, jain_index=None, accounts=(), lane_share=round(fairness.lane_share or 0.0, 9)
        )
        documents = self.store.documents(limit=1000)
        return ids, documents, self.store.customers(), self.store.tallies(), fairness


@pytest.mark.hypothesis
@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_a_group_does_what_its_members_would_do(
    store_factory: StoreFactory, policy: PolicyName
) -> None:
    rules = Rules(
        policy=policy,
        lane=OverdueLane(after=5.0, share=3),
        retry=RetryRule(max_attempts=2, first_delay=2.0, longest_delay=3.0),
        lease=30.0,
    )

    @settings(max_examples=histories(store_factory, 60))
    @given(steps)
    def agree(history: list[tuple[Any, ...]]) -> None:
        with fresh_store(store_factory, rules) as one, fresh_store(store_factory, rules) as other:
            lives = [Life(one, apart=False), Life(other, apart=True)]
            for kind, *values in history:
                for life in lives:
                    getattr(life, kind)(*values)
                assert lives[0].seen() == lives[1].seen()
            assert one.store.problems() == []

    agree()
