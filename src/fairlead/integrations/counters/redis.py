"""The ledger in Redis: a check is one script, which the server runs alone."""

from __future__ import annotations

from importlib.resources import files

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairlead.errors import CounterUnavailable, InvalidSetting
from fairlead.integrations.counters.base import micros


class RedisCounters:
    """One key for each customer, which goes when the count would start over anyway."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._prefix = f"fairlead:{name}:"
        self._script = client.register_script(
            files(__package__).joinpath("check.lua").read_text("utf-8")
        )

    def check(self, customer: str, interval: float, *, now: float | None = None) -> int:
        """See `CounterStore.check`."""
        numbers = [micros(interval)] if now is None else [micros(interval), micros(now)]
        try:
            return int(self._script([self._prefix + customer], numbers))
        except (redis.RedisError, OSError) as error:
            raise CounterUnavailable(f"Redis: {error}") from error

    def close(self) -> None:
        """See `CounterStore.close`."""
        self._client.close()


def open_at(url: str, *, name: str, timeout: float) -> RedisCounters:
    """The ledger in the database that the address names."""
    try:
        client = redis.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 1),  # a connection that the server has closed meanwhile
        )
    except ValueError as error:
        raise InvalidSetting(
            f"ledger must be an address such as redis://localhost:6379/1; Redis says: {error}"
        ) from None
    return RedisCounters(client, name)
