"""HTTP without I/O, for both clients: addresses, retries, and the meaning of responses."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from httpx_sse import SSEError

from fairlead import errors
from fairlead.backoff import exponential
from fairlead.client.errors import error_of
from fairlead.errors import FairleadError
from fairlead.model.json import from_json

CONNECT_SECONDS = 10.0
GRACE_SECONDS = 1.0  # time for a response that the server sends at the deadline
SILENCE_SECONDS = 30.0  # added to the timeout of streams; the server sends something every 15 s
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
UNREACHABLE = "the server does not answer now; trying again"
RATE_LIMITED = "the server asks for fewer requests; waiting"

_UNAVAILABLE = frozenset([502, 503, 504])
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_EXAMPLE = "http://127.0.0.1:8321"
_UNKNOWN: dict[str, type[FairleadError]] = {
    "documents": errors.UnknownDocument,
    "customers": errors.UnknownCustomer,
    "keys": errors.UnknownKey,
    "webhooks": errors.UnknownWebhook,
}

T = TypeVar("T")


class BaseTransport:
    """The server's address, the headers of every request, and its timeouts."""

    def __init__(
        self,
        url: str | None,
        key: str | None,
        language: str | None,
        timeout: float,
        patience: float,
        on_trouble: Callable[[str], None],
    ) -> None:
        self.url = check_url(url or _from_environment("FAIRLEAD_URL", "the address of a server"))
        key = check_key(key or _from_environment("FAIRLEAD_KEY", "a key"))
        self.headers = {"Authorization": f"Bearer {key}"}
        if language is not None:
            self.headers["Accept-Language"] = language
        self.patience = patience
        self.on_trouble = on_trouble
        self.was_reached = False
        self._timeout = timeout

    def options(
        self,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        *,
        more_seconds: float = 0.0,
        deadline: float = math.inf,
    ) -> dict[str, Any]:
        left = max(0.0, deadline - time.monotonic()) + GRACE_SECONDS
        timeout = min(self._timeout + more_seconds, left)
        return {
            "params": {name: value for name, value in (params or {}).items() if value is not None},
            "headers": self.headers | dict(headers or {}),
            "timeout": httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, left)),
        }

    def connection_options(self) -> dict[str, Any]:
        """Options of the HTTP client; proxies of the environment are not for this machine."""
        return {
            "trust_env": not is_this_machine(self.url),
            "limits": httpx.Limits(max_keepalive_connections=20),
        }

    def address(self, path: tuple[str, ...]) -> str:
        """The address of a resource; an empty id is refused, as it would name another resource."""
        try:
            if all(path):
                return "/".join([self.url, "v1", *map(_quoted, path)])
        except UnicodeEncodeError:
            pass
        raise _UNKNOWN[path[0]](f"there is no {'/'.join(path)!a}; check the id")


class Retry:
    """Decides whether a failed request is repeated, and when.

    A request that is not `idempotent` is repeated only if the server did not execute it, and one
    whose body cannot be read again, never. `deadline` is a time of the monotonic clock.
    """

    def __init__(
        self,
        transport: BaseTransport,
        *,
        idempotent: bool = True,
        can_be_sent: Callable[[], bool] = lambda: True,
        deadline: float = math.inf,
    ) -> None:
        self._transport = transport
        self._idempotent = idempotent
        self._can_be_sent = can_be_sent
        self._deadline = deadline
        self.restart()

    def restart(self) -> None:
        """The server responded: restart the backoff and the patience."""
        self._failures = 0
        self._give_up_at: float | None = None

    def pause(self, error: httpx.HTTPError) -> float:
        """Seconds to wait before the next try; if there is none, raises the error to report."""
        self._transport.was_reached |= not isinstance(error, _NEVER_SENT)
        failure = self._failure(error)
        if not self._is_repeatable(error, failure):
            raise failure from error
        now = time.monotonic()
        is_first = self._give_up_at is None
        self._give_up_at = self._give_up_at or now + self._transport.patience
        patience, left = self._give_up_at - now, self._deadline - now
        if left <= 0:
            raise errors.NotReady(f"no answer in time: {failure}") from error
        if patience <= 0 or (failure.retry_after or 0.0) > patience:
            raise failure from error
        if is_first:
            is_limited = isinstance(failure, errors.TooManyRequests)
            self._transport.on_trouble(RATE_LIMITED if is_limited else UNREACHABLE)
        self._failures += 1
        pause = exponential(self._failures, FIRST_PAUSE, LONGEST_PAUSE)
        return min(pause if failure.retry_after is None else failure.retry_after, patience, left)

    def _failure(self, error: httpx.HTTPError) -> FairleadError:
        if isinstance(error, httpx.HTTPStatusError):
            return _error_of(error.response)
        if not isinstance(error, httpx.TransportError) or isinstance(error, SSEError):
            return _foreign(self._transport.url, str(error))
        if not self._can_be_sent():
            return errors.NoConnection(
                f"the connection to {self._transport.url} was lost, and a source that can be read "
                "only once cannot be sent again; open it anew and submit it with the idempotency "
                "key of this error"
            )
        may_be_done = not self._idempotent and not isinstance(error, _NEVER_SENT)
        return _lost(self._transport.url, error, may_be_done=may_be_done)

    def _is_repeatable(self, error: httpx.HTTPError, failure: FairleadError) -> bool:
        if not self._can_be_sent():
            return False
        if isinstance(failure, errors.TooManyRequests):
            return True
        if isinstance(error, httpx.HTTPStatusError):
            return self._idempotent and error.response.status_code in _UNAVAILABLE
        if isinstance(failure, errors.NoConnection):
            never_sent = isinstance(error, _NEVER_SENT)
            # If no request ever reached the server, the address is probably wrong.
            return self._transport.was_reached if never_sent else self._idempotent
        return False


def decoded(record: type[T], response: httpx.Response, text: str | None = None) -> T:
    """The record in a JSON response, or in a `text` that is a part of it."""
    try:
        return from_json(record, response.content if text is None else text)
    except ValueError as error:
        url = str(response.request.url.copy_with(query=None))
        raise _foreign(url, "the answer is not JSON of Fairlead") from error


def deadline_after(timeout: float | None) -> float:
    return math.inf if timeout is None else time.monotonic() + timeout


def seconds_left(deadline: float) -> float:
    return deadline - time.monotonic()


def check_url(url: str) -> str:
    """The server's address, without a slash or the /v1 of its API at its end."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise errors.UsageError(f"invalid url ({error}); give one such as {_EXAMPLE}") from None
    is_http = parsed.scheme in ("http", "https") and parsed.host and (parsed.port or 0) < 2**16
    if not is_http or parsed.userinfo or parsed.query or parsed.fragment:
        masked = re.sub(r"//[^/@]*@", "//…@", url)[:200]  # without a password
        raise errors.UsageError(
            f"the url must be the address of a server such as {_EXAMPLE}; got {masked!a}"
        )
    bare = url.rstrip("/")
    is_api = parsed.path.rstrip("/").endswith("/v1")
    return bare.removesuffix("/v1").rstrip("/") if is_api else bare


def check_key(key: str) -> str:
    """The key; an invalid one is refused without being shown."""
    if not re.fullmatch(r"[!-~]+", key.strip()):
        raise errors.UsageError(
            "the key must be one such as fl_…; make one: fairlead keys add CUSTOMER"
        )
    return key.strip()


def is_this_machine(url: str) -> bool:
    """Whether the address is one of this machine, so that requests do not leave it."""
    host = httpx.URL(url).host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified or _is_own(address)


def _is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """To an address of its own, the kernel sends from that same address. Nothing is sent here."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect((str(address), 9))
        return ipaddress.ip_address(datagrams.getsockname()[0]) == address
    return False


def _from_environment(name: str, meaning: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise errors.UsageError(
            f"a client needs {meaning}; give it, or set {name} in the environment"
        )
    return value


def _quoted(segment: str) -> str:
    is_dots = segment in (".", "..")  # a URL would resolve them
    return segment.replace(".", "%2E") if is_dots else quote(segment, safe="")


def _error_of(response: httpx.Response) -> FairleadError:
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        return error_of(decoded(dict[str, Any], response))
    url = str(response.request.url.copy_with(query=None))
    error = _foreign(url, f"status {response.status_code}")
    after = response.headers.get("retry-after", "")  # of a proxy
    error.retry_after = float(after) if after.isdecimal() else None
    return error


def _foreign(url: str, reason: str) -> errors.ServerFailed:
    return errors.ServerFailed(
        f"{url} gave an unexpected answer ({reason}); is a Fairlead server there?"
    )


def _lost(url: str, error: httpx.TransportError, *, may_be_done: bool) -> errors.NoConnection:
    reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    if isinstance(error, _NEVER_SENT):
        return errors.NoConnection(
            f"{url} cannot be reached ({reason}); is the server running, and the url right?"
        )
    failure, advice = f"the connection to {url} was lost ({reason})", "try again"
    if isinstance(error, httpx.TimeoutException):
        failure, advice = f"{url} did not answer in time", "try again, or allow a longer timeout"
    if may_be_done:
        advice = "it may have been done, so look before you try again"
    return errors.NoConnection(f"{failure}; {advice}")
