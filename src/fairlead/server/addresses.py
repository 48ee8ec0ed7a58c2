"""Addresses: each path belongs to one, the first that it matches, whatever its method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import Receive, Scope, Send


class _End:
    """Where the routes of an address end: its own paths go to no wider one that comes later."""

    def __init__(self, route: Route) -> None:
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI)
        """Refuse a method that none of the address's routes takes."""
        scope["route"] = self._route
        raise HTTPException(405)


def with_ends(routes: Sequence[BaseRoute]) -> list[BaseRoute]:
    """The routes, and after the last one of each address its end, where a wider one follows.

    The framework tries all routes until one takes path and method. A name may have slashes, so
    `/v1/customers/{name}` would take what is meant for `/v1/customers/{name}/pause`.
    """
    found: list[BaseRoute] = []
    for number, route in enumerate(routes):
        found.append(route)
        later = [each for each in routes[number + 1 :] if isinstance(each, Route)]
        if isinstance(route, Route) and _is_covered(route, later):
            found.append(Route(route.path, _End(route)))
    return found


def _is_covered(route: Route, later: Iterable[Route]) -> bool:
    """Whether this is the last route of its address, and its paths match another one as well."""
    paths = {each.path for each in later}
    return route.path not in paths and any(_takes(each, route.path) for each in later)


def _takes(route: Route, path: str) -> bool:
    """Whether paths of this shape match the route: its placeholders are names like any other."""
    scope = {"type": "http", "method": "GET", "path": path}
    return route.matches(scope)[0] is not Match.NONE


def methods_at(routes: Iterable[BaseRoute], path: str) -> set[str]:
    """The methods that the address of this path takes."""
    found: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and route.path_regex.match(path):
            if isinstance(route.endpoint, _End):
                break
            found |= route.methods or set()
        elif isinstance(route, Mount) and route.path_regex.match(path):
            found |= {"GET", "HEAD"}  # files that do not change
    return found
