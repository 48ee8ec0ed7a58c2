"""The interface of counter stores, and the choice of one by URL."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Protocol, cast
from urllib.parse import urlsplit

from fairlead.errors import InvalidSetting
from fairlead.extras import needs_extra
from fairlead.model.names import quoted

MICRO = 1_000_000
"""Stores count in whole microseconds: no rounding decides whether an interval has passed."""

_MODULES = {
    **dict.fromkeys(("redis", "rediss", "unix"), "redis"),
    **dict.fromkeys(("postgresql", "postgres"), "postgres"),
    "sqlite": "sqlite",
}
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class CounterStore(Protocol):
    """The count of each customer, shared by all processes that send."""

    def check(self, customer: str, interval: float, *, now: float | None = None) -> int:
        """Count one submission of the customer atomically; return its count.

        `interval` is the customer's reset interval in seconds. Without `now`, the store's own
        clock is used.

        Raises:
            CounterUnavailable: the store did not answer in time, or not as expected.
        """
        ...

    def close(self) -> None:
        """Close connections. The next check opens new ones."""
        ...


def open_counters(url: str, *, name: str = "default", timeout: float = 0.5) -> CounterStore:
    """The counter store of this URL. The first check connects to it.

    Raises:
        InvalidSetting: the URL or the timeout is invalid.
        MissingExtra: the library for this kind of store is not installed.
    """
    seconds: object = timeout
    if not isinstance(seconds, int | float) or not 0 < seconds < 3600:
        raise InvalidSetting(f"timeout must be a number of seconds above 0; got {timeout!r}")
    module_name = _MODULES.get(_scheme(url))
    if module_name is None:
        raise InvalidSetting(
            "counters must be a URL that begins with redis://, postgresql:// or sqlite:///; "
            f"got one that begins with {quoted(str(url)[:12])}"
        )
    with needs_extra("postgres" if module_name == "postgres" else "celery"):
        module = import_module(f"{__package__}.{module_name}")
    return cast("CounterStore", module.open_at(url, name=name, timeout=timeout))


def micros(seconds: float) -> int:
    return round(seconds * MICRO)


@cache
def statements(file: str) -> dict[str, str]:
    """The SQL statements of a file of this package, by name."""
    parts = _NAME.split(files(__package__).joinpath(file).read_text("utf-8"))[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def _scheme(url: object) -> str:
    try:
        return urlsplit(url).scheme if isinstance(url, str) else ""
    except ValueError:
        return ""
