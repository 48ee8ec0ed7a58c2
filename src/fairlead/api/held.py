"""What holds for the whole of a request: the settings that were in force when it came."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Scope

from fairlead.settings import Settings

_KEY = "fairlead.settings"


def hold(scope: Scope, settings: Settings) -> None:
    """Let these settings hold for the request, so that they are looked at once."""
    scope[_KEY] = settings


def settings_of(request: HTTPConnection) -> Settings:
    """The settings that hold for this request."""
    found: Settings = request.scope[_KEY]
    return found
