"""Counters in Redis: a check is one Lua script, which the server runs atomically."""

from __future__ import annotations

from importlib.resources import files

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairlead.errors import CounterUnavailable, InvalidSetting
from fairlead.integrations.counters.counter_store import micros


class RedisCounters:
    """One key per customer, which expires when the count would start over anyway."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._prefix = f"fairlead:{name}:"
        script = files(__package__).joinpath("check.lua").read_text("utf-8")
        self._script = client.register_script(script)

    def check(self, customer: str, interval: float, *, now: float | None = None) -> int:
        arguments = [micros(interval)] if now is None else [micros(interval), micros(now)]
        try:
            return int(self._script([self._prefix + customer], arguments))
        except (redis.RedisError, OSError) as error:
            raise CounterUnavailable(f"Redis: {error}") from error

    def close(self) -> None:
        self._client.close()


def open_at(url: str, *, name: str, timeout: float) -> RedisCounters:
    try:
        client = redis.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 1),  # the server may have closed an idle connection
        )
    except ValueError as error:
        raise InvalidSetting(
            f"counters must be a URL such as redis://localhost:6379/1; Redis says: {error}"
        ) from None
    return RedisCounters(client, name)
