"""What holds for the whole of a request: the settings in force, and how to break it off."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import HTTPConnection
from starlette.types import Scope

from fairlead.settings import Settings

_KEY = "fairlead.settings"
_ABORT = "fairlead.abort"


def hold(scope: Scope, settings: Settings) -> None:
    """Let these settings hold for the request, so that they are looked at once."""
    scope[_KEY] = settings


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
