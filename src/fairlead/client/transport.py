"""The line to a server: requests that are sent again when the connection is lost."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from json import loads
from typing import Any, TypeVar

import httpx

from fairlead.client.errors import error_of
from fairlead.errors import (
    FairleadError,
    NoConnection,
    NotReady,
    ServerFailed,
    TooManyRequests,
    UsageError,
)

CONNECT_SECONDS = 10.0
GRACE_SECONDS = 1.0
"""For an answer that the server gives at the last moment, on its way."""
LONGEST_TIMEOUT = 1e9
"""Sockets cannot wait for much longer."""
SILENCE_SECONDS = 30.0
"""How much longer than an answer its next piece may take: streams say something every 15 s."""
AWAY = "the server does not answer now; trying again"
TOO_FAST = "the server asks for fewer requests; waiting"
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 2.0
_AWAY = frozenset([502, 503, 504])
"""Statuses of a server that is about to stop, to start, or behind a proxy that misses it."""

_NEVER_ARRIVED = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
)
_HIGHEST_PORT = 65_535
_MEANINGLESS = (
    *(ValueError, LookupError, TypeError, AttributeError),
    *(ArithmeticError, RecursionError),
)
"""What reading comes upon where something else than Fairlead's JSON is read."""

Params = Mapping[str, str | int | float | None]
T = TypeVar("T")


class Line:
    """Sends requests with a key. Who cannot be reached is tried again for `patience` seconds.

    A server that was never reached is not waited for: then the address is probably wrong.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        language: str | None,
        timeout: float,
        patience: float,
        on_trouble: Callable[[str], None],
        http: httpx.Client | None,
    ) -> None:
        self.url = check_url(url)
        self._timeout = check_seconds("the timeout", timeout, LONGEST_TIMEOUT)
        self.patience = check_seconds("the patience", patience, math.inf)
        self.on_trouble = on_trouble
        self.was_reached = False
        self._headers = {"Authorization": f"Bearer {check_key(key)}"}
        if language is not None:
            self._headers["Accept-Language"] = check_language(language)
        self._given = http
        self._is_closed = False
        self._own: dict[int, httpx.Client] = {}
        """By process. What came along in a fork stays with whom it belongs to: answers that two
        read from one connection get mixed up. It is not closed either, as its locks may be held by
        threads that did not come along."""

    @property
    def _http(self) -> httpx.Client:
        """What keeps the connections of this process."""
        if self._is_closed or (self._given is not None and self._given.is_closed):
            raise UsageError("the client is closed; make a new one")
        # Threads that come here at once may each make one; `setdefault` lets all use the same.
        return (
            self._given
            or self._own.get(os.getpid())
            or self._own.setdefault(os.getpid(), _connections(self.url))
        )

    def close(self) -> None:
        """Hang up."""
        self._is_closed = True
        own = self._own.get(os.getpid())
        if own is not None:
            own.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        json: Any = None,
        content: Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 0.0,
        until: float | None = None,
        is_safe: bool = True,
        is_spent: Callable[[], bool] = lambda: False,
    ) -> httpx.Response:
        """The server's good answer. What would harm when done twice is not `is_safe` to repeat.

        `seconds` is how much longer than usual the answer may take, `until` when, by the monotonic
        clock, nobody wants it any more: then it is NotReady. Content that `is_spent` cannot be sent
        again.
        """
        trials = Trials(self, is_safe=is_safe, is_spent=is_spent, until=until)
        while True:
            with trials.once(), _in_utf8():
                response = self._http.request(
                    method,
                    self.url + path,
                    params=_given(params),
                    json=json,
                    content=content,
                    headers=self._headers | dict(headers or {}),
                    timeout=self._limits(seconds, until),
                )
                self.was_reached = True
                _check(response)
                return response

    @contextmanager
    def listen(
        self, path: str, *, params: Params | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """An answer that is read as it comes."""
        trials = Trials(self, is_safe=True)
        while True:
            with trials.once(), _in_utf8():
                response = self._begin(path, params, headers)
                break
        try:
            yield response
        finally:
            response.close()

    def _begin(
        self, path: str, params: Params | None, headers: Mapping[str, str] | None
    ) -> httpx.Response:
        request = self._http.build_request(
            "GET",
            self.url + path,
            params=_given(params),
            headers=self._headers | dict(headers or {}),
            timeout=self._limits(SILENCE_SECONDS),
        )
        response = self._http.send(request, stream=True)
        self.was_reached = True
        try:
            if not response.is_success:
                response.read()
            _check(response)
        except BaseException:
            response.close()
            raise
        return response

    def _limits(self, seconds: float, until: float | None = None) -> httpx.Timeout:
        usual, connect = self._timeout + seconds, CONNECT_SECONDS
        if until is not None:
            left = max(0.0, until - time.monotonic()) + GRACE_SECONDS
            usual, connect = min(usual, left), min(connect, left)
        return httpx.Timeout(usual, connect=connect)


@contextmanager
def _in_utf8() -> Iterator[None]:
    """Refuses texts that cannot be sent. They are not shown: one may be a password."""
    try:
        yield
    except UnicodeEncodeError:
        raise UsageError("a text to be sent is not UTF-8; give it in that encoding") from None


def _connections(url: str) -> httpx.Client:
    return httpx.Client(
        trust_env=not is_loopback(url), limits=httpx.Limits(max_keepalive_connections=20)
    )


class Trials:
    """Decides whether a request that failed is sent again, and waits until then."""

    def __init__(
        self,
        line: Line,
        *,
        is_safe: bool,
        is_spent: Callable[[], bool] = lambda: False,
        until: float | None = None,
    ) -> None:
        self._line = line
        self._is_safe = is_safe
        self._is_spent = is_spent
        self._end = until
        self.reached()

    def reached(self) -> None:
        """It is going on: the next loss is a new one."""
        self._wait = _FIRST_WAIT
        self._until: float | None = None

    @contextmanager
    def once(self) -> Iterator[None]:
        """Try; where this comes back instead of raising or returning, try again."""
        try:
            yield
        except httpx.TransportError as error:
            lost = NoConnection(self._why_lost(error))
            if not self._may_repeat(error):
                raise lost from error
            if not self._pause(AWAY, None):
                raise self._given_up(lost) from error
        except httpx.RequestError as error:
            raise ServerFailed(
                f"{self._line.url} gave an answer that cannot be read ({error}); is a Fairlead "
                "server there?"
            ) from error
        except _Passing as passing:
            is_full = isinstance(passing.error, TooManyRequests)  # then nothing was done
            words = TOO_FAST if is_full else AWAY
            may_repeat = (self._is_safe or is_full) and not self._is_spent()
            if not may_repeat:
                raise passing.error from None
            if not self._pause(words, passing.error.retry_after):
                raise self._given_up(passing.error) from None

    def _why_lost(self, error: httpx.TransportError) -> str:
        if self._is_spent():
            return _why_not_again(self._line.url)
        may_be_done = not self._is_safe and not isinstance(error, _NEVER_ARRIVED)
        return _why_lost(self._line.url, error, may_be_done=may_be_done)

    def rest(self) -> None:
        """Wait a moment before what has ended is begun again."""
        time.sleep(_FIRST_WAIT)

    def _may_repeat(self, error: httpx.TransportError) -> bool:
        """Whoever took the request and then said nothing was reached, too."""
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
            return False  # something is wrong with the request itself
        never_arrived = isinstance(error, _NEVER_ARRIVED)
        is_lost = not never_arrived and not _is_no_http(error)
        self._line.was_reached = self._line.was_reached or is_lost
        is_harmless = (self._is_safe or never_arrived) and not self._is_spent()
        return self._line.was_reached and is_harmless

    def _pause(self, words: str, wanted: float | None) -> bool:
        """Wait for the next trial; False: patience, or the time there is for it, is at its end."""
        now = time.monotonic()
        is_first, self._until = self._until is None, self._until or now + self._line.patience
        left, time_left = self._until - now, math.inf if self._end is None else self._end - now
        if min(left, time_left) <= 0 or (wanted or 0) > left:
            return False
        if is_first:
            self._line.on_trouble(words)
        # At the end of its time it is tried once more, whatever the server wants.
        time.sleep(min(self._wait if wanted is None else wanted, left, time_left))
        self._wait = min(_LONGEST_WAIT, 2 * self._wait)
        return True

    def _given_up(self, error: FairleadError) -> FairleadError:
        """What is raised after the last trial: who set a time is told that it is over."""
        is_late = self._end is not None and time.monotonic() >= self._end
        return NotReady(f"nothing was heard in time: {error}") if is_late else error


class _Passing(Exception):
    """An error after which the same request may well be answered soon."""

    def __init__(self, error: FairleadError) -> None:
        super().__init__(str(error))
        self.error = error


def _check(response: httpx.Response) -> None:
    """Raise the error that an answer stands for."""
    if response.is_success:
        return
    error = _error(response)
    if response.status_code in _AWAY or isinstance(error, TooManyRequests):
        raise _Passing(error)
    raise error


def _error(response: httpx.Response) -> FairleadError:
    if _type_of(response) == "application/problem+json":
        return read_as(error_of, response)
    led = response.headers.get("location")
    hint = f"it leads to {_shown(led)}" if led else "is a Fairlead server there?"
    return ServerFailed(f"{_address(response)} answered {response.status_code}; {hint}")


def read_as(read: Callable[[Any], T], response: httpx.Response, said: str | None = None) -> T:
    """What the JSON of an answer, or `said` in it, stands for; raises where it is no Fairlead's."""
    try:
        return read(loads(response.content if said is None else said))
    except _MEANINGLESS as error:
        raise _foreign(response) from error


def text_of(response: httpx.Response, media_type: str) -> str:
    """The text of an answer that is of this type."""
    check_type(response, media_type)
    try:
        return response.content.decode()
    except UnicodeDecodeError as error:
        raise _foreign(response) from error


def check_type(response: httpx.Response, *known: str) -> None:
    """Refuse what no Fairlead answers with here."""
    if _type_of(response) not in known:
        raise _foreign(response)


def check_any(response: httpx.Response, size: int) -> None:
    """Refuse an answer that came to its end without a byte of what is left."""
    if not size:
        raise _foreign(response)


def check_done(response: httpx.Response) -> None:
    """Refuse any other answer than that it is done and there is nothing to say."""
    if response.status_code != httpx.codes.NO_CONTENT:
        raise _foreign(response)


def _foreign(response: httpx.Response) -> ServerFailed:
    return ServerFailed(
        f"{_address(response)} answered with something that is not Fairlead's; is a Fairlead "
        "server there?"
    )


def _type_of(response: httpx.Response) -> str:
    found: str = response.headers.get("content-type", "")
    return found.partition(";")[0].strip().lower()


def _address(response: httpx.Response) -> httpx.URL:
    return response.request.url.copy_with(query=None)


def check_url(url: str) -> str:
    """The server's address, without a slash or the /v1 of its API at its end."""
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise UsageError(f"the url is not one ({error}); give one such as {_EXAMPLE}") from None
    is_address = found.scheme in ("http", "https") and 0 <= (found.port or 0) <= _HIGHEST_PORT
    if not is_address or not found.host or found.userinfo or found.query or "#" in url:
        raise UsageError(
            f"the url must be the address of a server such as {_EXAMPLE}; got {_shown(url)}"
        )
    bare = url.rstrip("/")
    is_api = found.path.rstrip("/").endswith("/v1")  # of the path: a host may have this name
    return bare.removesuffix("/v1").rstrip("/") if is_api else bare


_EXAMPLE = "http://127.0.0.1:8321"


def check_key(key: str) -> str:
    """The key; what cannot be one is refused without being shown."""
    if not re.fullmatch(r"[!-~]+", key.strip()):
        raise UsageError("the key must be one such as fl_…; make one: fairlead keys add CUSTOMER")
    return key.strip()


def check_language(language: str) -> str:
    """The language, or several with their weights; refuses what could not travel in a header."""
    if not re.fullmatch(r"[A-Za-z0-9*,;=. -]+", language):
        raise UsageError(f"the language must be one such as de; got {language!a}")
    return language.strip()


def check_seconds(what: str, given: object, most: float) -> float:
    """The seconds; types are no help to those who do not check them."""
    if not isinstance(given, int | float) or not 0 <= given <= most:
        up_to = "" if most == math.inf else f" up to {most:,.0f}"
        raise UsageError(f"{what} must be a number of seconds{up_to}; got {given!r}")
    return float(given)


def is_loopback(url: str) -> bool:
    """Whether the server is on this machine."""
    host = httpx.URL(url).host
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(url: str) -> str:
    """Without a password that may be in it."""
    return ascii(re.sub(r"//[^/@]*@", "//…@", url)[:200])


def _why_not_again(url: str) -> str:
    return (
        f"the connection to {url} was lost, and a source that can be read only once cannot be "
        "sent again; open it anew and submit it with the idempotency key of this error"
    )


def _why_lost(url: str, error: httpx.TransportError, *, may_be_done: bool) -> str:
    reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"{url} cannot be reached ({reason}); is the server running, and the url right?"
    look = "it may have been done, so look before you try again"
    if isinstance(error, httpx.TimeoutException):
        advice = look if may_be_done else "try again, or allow a longer timeout"
        return f"{url} did not answer in time; {advice}"
    advice = look if may_be_done else "try again when the server runs"
    return f"the connection to {url} was lost ({reason}); {advice}"


def _is_no_http(error: httpx.TransportError) -> bool:
    """Whether something spoke that is no server of HTTP, rather than ended without an answer."""
    is_end = re.search("disconnected|closed connection", str(error))
    return isinstance(error, httpx.RemoteProtocolError) and is_end is None


def _given(params: Params | None) -> dict[str, str | int | float]:
    return {name: value for name, value in (params or {}).items() if value is not None}
