"""The states of a document and the actions that lead from one to the next.

submit → WAITING ────claim────→ PROCESSING ──finish──→ DONE
           ↑  │                    │  │ │
           │  │←─release, requeue──┘  │ └──fail──→ FAILED
           │  └──cancel──→ CANCELLED ←┘ cancel      │
           └───────────────retry────────────────────┘  (also from CANCELLED and DONE)
"""

from __future__ import annotations

from enum import StrEnum

from fairlead.errors import InvalidTransition, Message, UsageError


class State(StrEnum):
    """The state of a document."""

    WAITING = "waiting"
    PROCESSING = "processing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_pending(self) -> bool:
        """Waiting or processing."""
        return self in (State.WAITING, State.PROCESSING)


def state_of(name: State | str) -> State:
    """The state of this name; UsageError if there is none."""
    try:
        return State(name)
    except ValueError:
        raise UsageError(f"the state must be one of {', '.join(State)}; got {name!r}") from None


class Action(StrEnum):
    """An action that changes the state of a document: of the engine, or of a person."""

    CLAIM = "claim"
    FINISH = "finish"
    FAIL = "fail"
    REQUEUE = "requeue"
    RELEASE = "release"
    CANCEL = "cancel"
    RETRY = "retry"


_NEXT = {
    (State.WAITING, Action.CLAIM): State.PROCESSING,
    (State.WAITING, Action.CANCEL): State.CANCELLED,
    (State.PROCESSING, Action.FINISH): State.DONE,
    (State.PROCESSING, Action.FAIL): State.FAILED,
    (State.PROCESSING, Action.REQUEUE): State.WAITING,
    (State.PROCESSING, Action.RELEASE): State.WAITING,
    (State.PROCESSING, Action.CANCEL): State.CANCELLED,
    (State.DONE, Action.RETRY): State.WAITING,
    (State.FAILED, Action.RETRY): State.WAITING,
    (State.CANCELLED, Action.RETRY): State.WAITING,
}


REFUSALS = {
    Action.CLAIM: "a document that is {state} cannot be claimed",
    Action.FINISH: "a document that is {state} cannot be finished",
    Action.FAIL: "a document that is {state} cannot be failed",
    Action.REQUEUE: "a document that is {state} cannot be tried again",
    Action.RELEASE: "a document that is {state} cannot be released",
    Action.CANCEL: "a document that is {state} cannot be cancelled",
    Action.RETRY: "a document that is {state} cannot be retried",
}
"""The error for an action that the state does not allow."""


def allows(state: State, action: Action) -> bool:
    return (state, action) in _NEXT


def after(state: State, action: Action) -> State:
    """The state after the action; InvalidTransition if the state does not allow it."""
    try:
        return _NEXT[state, action]
    except KeyError:
        hint = "see its state: fairlead docs show"
        words = Message(REFUSALS[action], state=state.value, hint=hint)
        raise InvalidTransition(words) from None
