"""The states of a document and the actions that lead from one to the next.

submit → WAITING ──claim──→ PROCESSING ──finish──→ DONE
           ↑  │                │  │ │
           │  │←─release,retry─┘  │ └──fail──→ FAILED
           │  └──cancel──→ CANCELLED ←─cancel─┘   │
           └──────────────again───────────────────┘  (also from CANCELLED and DONE)
"""

from __future__ import annotations

from enum import StrEnum

from fairlead.errors import InvalidTransition, Message, UsageError


class State(StrEnum):
    """Where a document is in its life."""

    WAITING = "waiting"
    PROCESSING = "processing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_pending(self) -> bool:
        """Waiting or processing: not yet at an end."""
        return self in (State.WAITING, State.PROCESSING)


def state_of(name: State | str) -> State:
    """The state of this name; refuses a name that none has."""
    try:
        return State(name)
    except ValueError:
        raise UsageError(f"the state must be one of {', '.join(State)}; got {name!r}") from None


class Action(StrEnum):
    """What can happen to a document after it was submitted."""

    CLAIM = "claim"
    FINISH = "finish"
    FAIL = "fail"
    RETRY = "retry"
    RELEASE = "release"
    CANCEL = "cancel"
    RETRIED = "again"


_NEXT = {
    (State.WAITING, Action.CLAIM): State.PROCESSING,
    (State.WAITING, Action.CANCEL): State.CANCELLED,
    (State.PROCESSING, Action.FINISH): State.DONE,
    (State.PROCESSING, Action.FAIL): State.FAILED,
    (State.PROCESSING, Action.RETRY): State.WAITING,
    (State.PROCESSING, Action.RELEASE): State.WAITING,
    (State.PROCESSING, Action.CANCEL): State.CANCELLED,
    (State.DONE, Action.RETRIED): State.WAITING,
    (State.FAILED, Action.RETRIED): State.WAITING,
    (State.CANCELLED, Action.RETRIED): State.WAITING,
}


REFUSALS = {
    Action.CLAIM: "a document that is {state} cannot be claimed",
    Action.FINISH: "a document that is {state} cannot be finished",
    Action.FAIL: "a document that is {state} cannot be failed",
    Action.RETRY: "a document that is {state} cannot be tried again",
    Action.RELEASE: "a document that is {state} cannot be released",
    Action.CANCEL: "a document that is {state} cannot be cancelled",
    Action.RETRIED: "a document that is {state} cannot be retried",
}
"""What is said of an action that the state does not allow."""


def allows(state: State, action: Action) -> bool:
    return (state, action) in _NEXT


def after(state: State, action: Action) -> State:
    """The state that the action leads to; refuses an action that the state does not allow."""
    try:
        return _NEXT[state, action]
    except KeyError:
        hint = "see its state: fairlead docs show"
        words = Message(REFUSALS[action], state=state.value, hint=hint)
        raise InvalidTransition(words) from None
