"""Direct routes: a fixed path is looked up in a dictionary and its handler is called at once.

For uploads this saves most of what FastAPI costs: trying routes and solving dependencies.
"""

from __future__ import annotations

from inspect import signature
from typing import TypeGuard

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send


class FastRoutes:
    """Calls the handlers of direct routes, and leaves every other request to the application."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._routes: dict[tuple[str | None, str | None], APIRoute] = {
            (method, route.path): route
            for route in reversed(app.routes)  # of two routes with one path, the first one wins
            if is_direct(route)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get((scope.get("method"), scope.get("path")))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["app"] = self._app
        scope["route"] = route
        response: ASGIApp = await route.endpoint(Request(scope, receive))
        await response(scope, receive, send)


def is_direct(route: BaseRoute) -> TypeGuard[APIRoute]:
    """Whether its path is fixed and its handler takes nothing but the request.

    A route of a subclass, as the dashboard's, does more than call its handler.
    """
    return (
        type(route) is APIRoute
        and not route.param_convertors
        and not route.dependencies
        and route.dependant.request_param_name is not None
        and len(signature(route.endpoint).parameters) == 1
    )
