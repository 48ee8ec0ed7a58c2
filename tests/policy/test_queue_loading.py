"""A queue that is loaded in portions, as a store does it, chooses what the whole one does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profiles import examples
from random_histories import (
    InMemory,
    Operation,
    PartlyLoaded,
    World,
    dense_history,
    histories,
    play,
    worlds,
)

any_history = histories(accounts=True) | st.integers(0, 2**32).map(dense_history)


@settings(max_examples=examples(600))
@given(any_history, worlds, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_a_queue_loaded_in_portions_chooses_what_the_whole_one_does(
    operations: list[Operation], world: World, width: int, depth: int, overdue: int
) -> None:
    partly = play(operations, world, PartlyLoaded(world, width, depth, overdue))
    assert partly == play(operations, world, InMemory(world))
