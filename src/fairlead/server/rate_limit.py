"""The rate limit: how many requests each customer may send."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from fairlead.errors import Message
from fairlead.server.problems import Problem


class RateLimiter:
    """A token bucket per customer and per link: at most `burst` tokens, `rate` more a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def check(self, holder: str, rate: float, burst: int) -> None:
        now = self._clock()
        tokens, at = self._buckets.get(holder, (float(burst), now))
        tokens = min(float(burst), tokens + (now - at) * rate)
        self._buckets[holder] = (tokens if tokens < 1 else tokens - 1, now)
        if tokens < 1:
            raise Problem(
                "limit-reached",
                Message(
                    "the rate limit is {rate} requests a second, {burst} at once; slow down",
                    rate=rate,
                    burst=burst,
                ),
                retry_after=max(1, math.ceil((1 - tokens) / rate)),
                limit="requests_a_second",
            )
