"""An outage of the store: borne, with growing pauses between two tries, until it is over."""

from __future__ import annotations

import logging
import time
from types import TracebackType

from fairlead.errors import StoreUnreachable

_log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Outage:
    """Around what speaks to the store: that it cannot be reached is told once, and is no end."""

    def __init__(self) -> None:
        self._pause = 0.0
        self._until = float("-inf")

    @property
    def is_on(self) -> bool:
        """Whether the store did not answer when it was last spoken to."""
        return self._pause > 0

    def is_resting(self) -> bool:
        """Whether the store was tried a moment ago and is better left alone."""
        return time.monotonic() < self._until

    def over(self) -> None:
        """The store has answered."""
        if self._pause:
            _log.warning("fairlead: the store is reached again")
            self._pause = 0.0

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, StoreUnreachable):
            return False
        if not self._pause:
            _log.warning("fairlead: %s; trying again until it is there", error)
        self._pause = min(LONGEST_PAUSE, 2 * self._pause or FIRST_PAUSE)
        self._until = time.monotonic() + self._pause
        return True
