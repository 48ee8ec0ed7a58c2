"""Costs: guessed from shape and length, learnt from what was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.documents import Sniff
from fairlead.policy.costs import (
    LEAST_SECONDS,
    MEMORY,
    CostBucket,
    LearnedCosts,
    cost_bucket,
    estimate,
    learn,
)


def test_pages_count_where_they_are_known_and_bytes_elsewhere() -> None:
    assert cost_bucket(Sniff("pdf", 300), 10) == CostBucket("pdf", "pages", 9)
    assert cost_bucket(Sniff("pdf"), 300 * 1024) == CostBucket("pdf", "bytes", 9)
    assert cost_bucket(Sniff("pdf"), 10) == CostBucket("pdf", "bytes", 0)


@given(st.integers(0, 10**12))
def test_a_longer_document_is_never_estimated_lower(size: int) -> None:
    shorter, longer = cost_bucket(Sniff(), size), cost_bucket(Sniff(), 2 * size)
    assert estimate(shorter, {}) <= estimate(longer, {})


def test_what_was_learnt_of_the_same_length_is_the_estimate() -> None:
    row = CostBucket("text", "bytes", 5)
    assert estimate(row, {5: LearnedCosts(3, 7.5), 6: LearnedCosts(9, 1.0)}) == 7.5


def test_the_nearest_length_is_scaled() -> None:
    known = {5: LearnedCosts(3, 2.0)}
    assert estimate(CostBucket("text", "bytes", 7), known) == 8.0
    assert estimate(CostBucket("text", "bytes", 4), known) == 1.0


def test_what_is_too_far_away_tells_nothing() -> None:
    far = {40: LearnedCosts(3, 2.0)}
    assert estimate(CostBucket("text", "bytes", 1), far) == estimate(
        CostBucket("text", "bytes", 1), {}
    )


def test_an_estimate_is_never_nothing() -> None:
    assert estimate(CostBucket("text", "bytes", 5), {5: LearnedCosts(1, 0.0)}) == LEAST_SECONDS


def test_the_first_documents_give_their_mean() -> None:
    learnt = None
    for seconds in (1.0, 2.0, 6.0):
        learnt = learn(learnt, seconds)
    assert learnt is not None
    assert learnt.documents == 3
    assert learnt.seconds == pytest.approx(3.0)


def test_what_is_new_takes_the_place_of_what_is_old() -> None:
    learnt = LearnedCosts(MEMORY, 1.0)
    for _ in range(5 * MEMORY):
        learnt = learn(learnt, 10.0)
    assert learnt.seconds == pytest.approx(10.0, rel=0.01)
    assert learnt.documents == MEMORY
