"""What holds for the whole of a request: settings, headers, and how to break it off."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import HTTPConnection
from starlette.types import Scope

from fairlead.config.settings import Settings

_KEY = "fairlead.config.settings"
_HEADERS = "fairlead.headers"
_LINE = "fairlead.line"


class RequestConnection:
    """The connection of a request; `abort` ends it with all that its reader has not taken."""

    def __init__(self, abort: Callable[[], None]) -> None:
        self.abort = abort
        self.is_silent = False
        """Whether the other side has said that it will send no more; it may still read."""
        self._tell: Callable[[], object] | None = None

    def on_silence(self, tell: Callable[[], object]) -> None:
        """Call this when the other side falls silent; at once where it has."""
        self._tell = tell
        if self.is_silent:
            tell()

    def fall_silent(self) -> None:
        """The other side will send no more."""
        self.is_silent = True
        if self._tell is not None:
            self._tell()


def hold(scope: Scope, settings: Settings) -> dict[bytes, bytes]:
    """Let these settings hold for the request, and return its headers: both are looked at once."""
    scope[_KEY] = settings
    headers: dict[bytes, bytes] = dict(scope["headers"])
    scope[_HEADERS] = headers
    return headers


def header_of(request: HTTPConnection, name: bytes) -> str | None:
    """A header that is no list; None: it did not come."""
    found: bytes | None = request.scope[_HEADERS].get(name)
    return None if found is None else found.decode("latin-1")


def settings_of(request: HTTPConnection) -> Settings:
    """The settings that hold for this request."""
    found: Settings = request.scope[_KEY]
    return found


def hold_line(scope: Scope, line: RequestConnection) -> None:
    """Let this be the connection of the request."""
    scope[_LINE] = line


def line_of(scope: Scope) -> RequestConnection | None:
    """The connection of the request; None: it has none that could be held."""
    found: RequestConnection | None = scope.get(_LINE)
    return found
