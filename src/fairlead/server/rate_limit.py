"""The rate limit: a token bucket for the requests of each customer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from fairlead.errors import Message
from fairlead.server.problems import Problem


class RateLimiter:
    """A token bucket per customer and per link: `burst` tokens at most, and `rate` more a second.

    The missing tokens are stored, so a higher burst takes effect with the next request. After a
    lower burst, the tokens that were left stay, up to the new burst.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._missing: dict[str, tuple[float, int, float]] = {}
        """Missing tokens, burst and time of the last check, by holder."""

    def check(self, holder: str, rate: float, burst: int) -> None:
        now = self._clock()
        missing, last_burst, last_at = self._missing.get(holder, (0.0, burst, now))
        missing = max(0.0, missing - max(0, last_burst - burst) - (now - last_at) * rate)
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
