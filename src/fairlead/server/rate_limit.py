"""The rate limit: how many requests each customer may send."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from fairlead.errors import Message
from fairlead.server.problems import Problem


class RateLimiter:
    """A token bucket per customer and per link: at most `burst` tokens, `rate` more a second.

    It keeps how many tokens are missing, so that a higher burst holds from the next request on. Of
    a lower one, as many are left as there were, or all.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._missing: dict[str, tuple[float, int, float]] = {}
        """With the burst and the time of the last check."""

    def check(self, holder: str, rate: float, burst: int) -> None:
        now = self._clock()
        missing, full, at = self._missing.get(holder, (0.0, burst, now))
        missing = max(0.0, missing - max(0, full - burst) - (now - at) * rate)
        is_over = missing + 1 > burst
        self._missing[holder] = (missing if is_over else missing + 1, burst, now)
        if is_over:
            raise Problem(
                "limit-reached",
                Message(
                    "the rate limit is {rate} requests a second, {burst} at once; slow down",
                    rate=rate,
                    burst=burst,
                ),
                retry_after=max(1, math.ceil((missing + 1 - burst) / rate)),
                limit="requests_a_second",
            )
