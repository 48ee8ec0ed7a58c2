"""The straight way: from a fixed address to its handler, past what would have nothing to do."""

from __future__ import annotations

from inspect import signature
from typing import TypeGuard

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send


class FastRoutes:
    """Lets plain routes answer at once, and the application whatever else is asked."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._routes: dict[tuple[str | None, str | None], APIRoute] = {
            (method, route.path): route
            for route in reversed(app.routes)  # of two at one address, the first one answers
            if is_plain(route)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route = self._routes.get((scope.get("method"), scope.get("path")))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["app"] = self._app
        scope["route"] = route
        answer: ASGIApp = await route.endpoint(Request(scope, receive))
        await answer(scope, receive, send)


def is_plain(route: BaseRoute) -> TypeGuard[APIRoute]:
    """Whether its address is fixed and its handler takes the request alone.

    Then no other route has to be tried, and nothing has to be found, checked or converted. A route
    of a class of its own, as the dashboard's, does more than call its handler.
    """
    return (
        type(route) is APIRoute
        and not route.param_convertors
        and not route.dependencies
        and route.dependant.request_param_name is not None
        and len(signature(route.endpoint).parameters) == 1
    )
