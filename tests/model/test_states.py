from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InvalidTransition
from fairlead.model.states import Action, State, after, allows

# The diagram of the module, read once more by hand.
ARROWS = {
    "waiting": {"claim": "processing", "cancel": "cancelled"},
    "processing": {
        "finish": "done",
        "fail": "failed",
        "requeue": "waiting",
        "release": "waiting",
        "cancel": "cancelled",
    },
    "done": {"retry": "waiting"},
    "failed": {"retry": "waiting"},
    "cancelled": {"retry": "waiting"},
}


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("state", State)
def test_every_pair_does_what_the_diagram_says(state: State, action: Action) -> None:
    expected = ARROWS[state.value].get(action.value)
    assert allows(state, action) == (expected is not None)
    if expected is not None:
        assert after(state, action) == expected
    else:
        with pytest.raises(InvalidTransition, match=f"is {state} cannot be "):
            after(state, action)


@given(st.lists(st.sampled_from(Action), max_size=40))
def test_done_is_reached_by_finish_alone_and_left_by_a_retry_alone(actions: list[Action]) -> None:
    state = State.WAITING
    for action in actions:
        if not allows(state, action):
            continue
        before, state = state, after(state, action)
        assert before is not State.DONE or action is Action.RETRY
        assert (state is State.DONE) == (action is Action.FINISH)


@pytest.mark.parametrize("state", State)
def test_pending_is_what_is_not_at_an_end(state: State) -> None:
    assert state.is_pending == (state.value in ("waiting", "processing"))
    assert state.is_pending == allows(state, Action.CANCEL)
