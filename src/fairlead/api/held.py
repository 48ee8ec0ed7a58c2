"""What holds for the whole of a request: settings, headers, and how to break it off."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import HTTPConnection
from starlette.types import Scope

from fairlead.settings import Settings

_KEY = "fairlead.settings"
_HEADERS = "fairlead.headers"
_ABORT = "fairlead.abort"


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


def hold_line(scope: Scope, abort: Callable[[], None]) -> None:
    """Let this end the connection at once, with all that its reader has not taken."""
    scope[_ABORT] = abort


def break_off(scope: Scope) -> bool:
    """End the connection of this request at once; False: there is none that could be."""
    abort = scope.get(_ABORT)
    if abort is not None:
        abort()
    return abort is not None
