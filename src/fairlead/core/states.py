"""The states of a document and the actions that lead from one to the next.

submit → WAITING ──claim──→ PROCESSING ──finish──→ DONE
           ↑  │                │  │ │
           │  │←─release,retry─┘  │ └──fail──→ FAILED
           │  └──cancel──→ CANCELLED ←─cancel─┘   │
           └──────────────again───────────────────┘  (also from CANCELLED)
"""

from __future__ import annotations

from enum import StrEnum

from fairlead.errors import InvalidTransition


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


class Action(StrEnum):
    """What can happen to a document after it was submitted."""

    CLAIM = "claim"
    FINISH = "finish"
    FAIL = "fail"
    RETRY = "retry"
    RELEASE = "release"
    CANCEL = "cancel"
    AGAIN = "again"


_NEXT = {
    (State.WAITING, Action.CLAIM): State.PROCESSING,
    (State.WAITING, Action.CANCEL): State.CANCELLED,
    (State.PROCESSING, Action.FINISH): State.DONE,
    (State.PROCESSING, Action.FAIL): State.FAILED,
    (State.PROCESSING, Action.RETRY): State.WAITING,
    (State.PROCESSING, Action.RELEASE): State.WAITING,
    (State.PROCESSING, Action.CANCEL): State.CANCELLED,
    (State.FAILED, Action.AGAIN): State.WAITING,
    (State.CANCELLED, Action.AGAIN): State.WAITING,
}


_DONE_TO_IT = {
    Action.CLAIM: "claimed",
    Action.FINISH: "finished",
    Action.FAIL: "failed",
    Action.RETRY: "tried again",
    Action.RELEASE: "released",
    Action.CANCEL: "cancelled",
    Action.AGAIN: "queued again",
}


def allows(state: State, action: Action) -> bool:
    """Whether the action is possible in this state."""
    return (state, action) in _NEXT


def after(state: State, action: Action) -> State:
    """The state that the action leads to; refuses an action that the state does not allow."""
    try:
        return _NEXT[state, action]
    except KeyError:
        raise InvalidTransition(
            f"a document that is {state} cannot be {_DONE_TO_IT[action]}; "
            "see where it is with: fairlead docs show"
        ) from None
