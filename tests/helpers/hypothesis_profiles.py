"""How many random examples a property test tries: few in `make test`, all in `make test-full`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SHARES = {"test": 10, "full": 100}
"""Percent of the examples that a test asks for, by profile of Hypothesis."""


def register_profiles() -> None:
    """Make the profiles known. Examples are the same at every run; `test` is the default."""
    for name, share in SHARES.items():
        settings.register_profile(
            name,
            max_examples=share,  # of a test that asks for no number, which means 100
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
    settings.load_profile("test")


def examples(number: int) -> int:
    """The share of this number that the profile in force tries."""
    return max(1, number * settings().max_examples // 100)
