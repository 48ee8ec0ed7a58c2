"""The rate limit."""

from __future__ import annotations

import pytest

from fairlead.server.problems import Problem
from fairlead.server.rate_limit import RateLimiter


def test_a_bucket_empties_and_fills_again() -> None:
    now = [0.0]
    limiter = RateLimiter(lambda: now[0])
    for _ in range(3):
        limiter.check("acme", 2.0, 3)
    with pytest.raises(Problem) as caught:
        limiter.check("acme", 2.0, 3)
    assert caught.value.extra == {"limit": "requests_a_second", "retry_after": 1}
    limiter.check("globex", 2.0, 3)
    now[0] = 0.5
    limiter.check("acme", 2.0, 3)


@pytest.mark.parametrize(("burst", "left"), [(5, 2), (3, 0), (1, 0)])
def test_a_change_of_an_empty_bucket_holds_at_once(burst: int, left: int) -> None:
    limiter = RateLimiter(lambda: 0.0)
    for _ in range(3):
        limiter.check("acme", 2.0, 3)
    for _ in range(left):
        limiter.check("acme", 2.0, burst)
    with pytest.raises(Problem):
        limiter.check("acme", 2.0, burst)


def test_a_lower_burst_leaves_what_there_was() -> None:
    limiter = RateLimiter(lambda: 0.0)
    limiter.check("acme", 2.0, 5)
    limiter.check("acme", 2.0, 1)
    with pytest.raises(Problem):
        limiter.check("acme", 2.0, 1)
