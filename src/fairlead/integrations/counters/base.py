"""What a ledger promises, and which one an address names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast
from urllib.parse import urlsplit

from fairlead.errors import InvalidSetting, MissingExtra
from fairlead.model.names import shown

MICRO = 1_000_000
"""Ledgers reckon in whole microseconds: no rounding decides whether an interval has passed."""

_MODULES = {
    "redis": "redis",
    "rediss": "redis",
    "unix": "redis",
    "postgresql": "postgres",
    "postgres": "postgres",
    "sqlite": "sqlite",
}


class CounterStore(Protocol):
    """The count of each customer, kept where all who send can reach it."""

    def check(self, customer: str, interval: float, *, now: float | None = None) -> int:
        """One submission of the customer, as one atomic step; the count that it gets.

        `interval` is the customer's reset interval in seconds. Time is the ledger's own unless
        `now` is given.

        Raises:
            LedgerDown: the ledger did not answer in time, or not as expected.
        """
        ...

    def close(self) -> None:
        """Let go of connections. The next check makes new ones."""
        ...


def open_counters(url: str, *, name: str = "default", timeout: float = 0.5) -> CounterStore:
    """The ledger at this address. It is connected to at the first check, not now.

    Raises:
        InvalidSetting: the address is none that a ledger has, or the timeout none at all.
        MissingExtra: the library for this kind of ledger is not installed.
    """
    seconds: object = timeout
    if not isinstance(seconds, int | float) or not 0 < seconds < 3600:
        raise InvalidSetting(f"timeout must be a number of seconds above 0; got {timeout!r}")
    module = _MODULES.get(_scheme(url))
    if module is None:
        raise InvalidSetting(
            "ledger must be an address that begins with redis://, postgresql:// or sqlite:///; "
            f"got one that begins with {shown(str(url)[:12])}"
        )
    try:
        found = import_module(f"fairlead.integrations.counters.{module}")
    except ModuleNotFoundError as error:
        extra = "postgres" if module == "postgres" else "celery"
        raise MissingExtra(
            f"the library {error.name} is missing; install it: pip install 'fairlead[{extra}]'"
        ) from None
    make = cast("Callable[..., CounterStore]", found.open_at)
    return make(url, name=name, timeout=timeout)


def micros(seconds: float) -> int:
    """Seconds as the nearest whole number of microseconds."""
    return round(seconds * MICRO)


def _scheme(url: object) -> str:
    try:
        return urlsplit(url).scheme if isinstance(url, str) else ""
    except ValueError:
        return ""
