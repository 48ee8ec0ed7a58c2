"""A scheduler of interleavings: of several client threads exactly one runs, and a seed says which.

A client passes the turn on at its steps: a lock, a statement, a connection of a pool, a file (see
`steps_of_clients`). A client that waits for a lock does not get the turn before the lock is free.
If all wait, that is a deadlock, and known at once. No time is measured, so every seed replays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

MOST_STEPS = 50_000
STAYS = (0.0, 0.5, 0.8, 0.95)
"""How likely a client keeps the turn at a step; each seed takes one of them."""
_LAST = 40

IsFree = Callable[[], bool]
Call = Callable[[], Any]


class Deadlock(AssertionError):
    """All clients wait for each other."""


class TooManySteps(AssertionError):
    """The clients come to no end."""


class _Abandoned(BaseException):
    """Unwinds a client after a deadlock."""


class _Client:
    def __init__(self, name: str, call: Call) -> None:
        self.name = name
        self.call = call
        self.turn = threading.Semaphore(0)
        self.is_free: IsFree | None = None
        """Whether what it waits for is there; None: it waits for nothing."""
        self.point = "begins"
        self.is_ended = False
        self.result: Any = None

    def may_run(self) -> bool:
        return not self.is_ended and (self.is_free is None or self.is_free())


_own = threading.local()


def scheduler() -> Scheduler | None:
    """The scheduler of this thread; None: it is no client."""
    found: Scheduler | None = getattr(_own, "scheduler", None)
    return found


class Scheduler:
    """Runs clients once; `trace` has all their steps."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.trace: list[str] = []
        self._random = Random(seed)
        self._stay = self._random.choice(STAYS)
        self._clients: list[_Client] = []
        self._failure: AssertionError | None = None
        self._end = threading.Semaphore(0)

    def run(self, clients: Mapping[str, Call]) -> dict[str, Any]:
        """What each client returned or raised; raises Deadlock."""
        self._clients = [_Client(name, call) for name, call in clients.items()]
        threads = [
            threading.Thread(target=self._live, args=(client,), name=client.name, daemon=True)
            for client in self._clients
        ]
        for thread in threads:
            thread.start()
        self._pass_on()
        self._end.acquire()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return {client.name: client.result for client in self._clients}

    # --- called by clients ---

    def step(self, point: str) -> None:
        """Let the seed decide who goes on."""
        self._wait(point, None)

    def wait(self, point: str, is_free: IsFree) -> None:
        """Pass the turn on until `is_free`, which any client may call."""
        self._wait(point, is_free)

    def wait_for_others(self, point: str) -> None:
        """Pass the turn on until another client has made a step."""
        before = len(self.trace)
        self._wait(point, lambda: len(self.trace) > before)

    def _wait(self, point: str, is_free: IsFree | None) -> None:
        client: _Client = _own.client
        if self._failure is not None:
            if is_free is not None:
                raise _Abandoned
            return
        client.point, client.is_free = point, is_free
        chosen = self._choose(client)
        if chosen is not client:
            self._give(chosen)
            client.turn.acquire()
        client.is_free = None
        if self._failure is not None:
            raise _Abandoned
        self.trace.append(f"{client.name}: {point}")
        if len(self.trace) > MOST_STEPS:
            self._failure = TooManySteps(self._told("no end"))
            raise _Abandoned

    # --- turns ---

    def _live(self, client: _Client) -> None:
        _own.scheduler, _own.client = self, client
        client.turn.acquire()
        try:
            if self._failure is None:
                client.result = client.call()
        except _Abandoned:
            pass
        except Exception as error:
            client.result = error
        finally:
            _own.scheduler = None
            client.is_ended = True
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the turn to a client, or end the run."""
        self._give(self._choose(None))

    def _give(self, chosen: _Client | None) -> None:
        (self._end if chosen is None else chosen.turn).release()

    def _choose(self, current: _Client | None) -> _Client | None:
        """The client that goes on; None: all have ended."""
        left = [client for client in self._clients if not client.is_ended]
        if self._failure is not None:  # all unwind, one after the other
            return left[0] if left else None
        ready = [client for client in left if client.may_run()]
        if not ready and left:
            waits = "; ".join(f"{client.name} waits at {client.point!r}" for client in left)
            self._failure = Deadlock(self._told(f"deadlock: {waits}"))
            return current if current in left else left[0]
        if current in ready and self._random.random() < self._stay:
            return current
        return self._random.choice(ready) if ready else None

    def _told(self, what: str) -> str:
        steps = "\n  ".join(self.trace[-_LAST:])
        return f"seed {self.seed}: {what}\nThe last steps:\n  {steps}"
