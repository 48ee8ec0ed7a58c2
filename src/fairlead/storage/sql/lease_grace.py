"""Hold-ups: nobody is let in to write, because of a lock, or as the database is away."""

from __future__ import annotations

from collections.abc import Callable

SHORT_WAIT = 1.0
"""Seconds; who waits longer to be let in is held up."""
AFTERMATH = 30.0
"""Seconds for other processes, which were held up too, to say that they are there."""


class LeaseGrace:
    """What one process knows of it: since when it has been on, also if it has just passed.

    As nobody can renew a lease meanwhile, one that has ended since then says nothing about its
    holder.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._is_on = False
        self._since = self._until = float("-inf")

    def met(self, began: float) -> None:
        """Who tried to get in from then on has given up."""
        self._note(began)
        self._is_on = True

    def passed(self, began: float) -> None:
        """Who tried to get in from then on is let in."""
        if self._is_on or self._clock() - began > SHORT_WAIT:
            self._note(began)
            self._is_on = False

    def since(self) -> float | None:
        """Since when nobody was let in; None: that is long over."""
        return self._since if self._is_on or self._clock() < self._until else None

    def _note(self, began: float) -> None:
        if not self._is_on:  # a new one: what ended before it may be taken back by now
            self._since = began
        self._until = self._clock() + AFTERMATH
