"""The application: all routes, the middleware around them, and the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

import fairlead
from fairlead.server import schemas
from fairlead.server.context import ServerContext
from fairlead.server.dashboard import (
    customer_link,
    decisions,
    links,
    live,
    login,
    overview,
    priority,
    zip_download,
)
from fairlead.server.dashboard import customers as customer_pages
from fairlead.server.dashboard import documents as document_pages
from fairlead.server.dashboard.page import unknown_url
from fairlead.server.examples import EXAMPLES
from fairlead.server.middleware import DirectRoutes, RequestGuard
from fairlead.server.routes import (
    batches,
    customers,
    document_results,
    documents,
    events,
    health,
    jobs,
    keys,
    pipelines,
    policy,
    results,
    usage,
    webhooks,
)

API = (
    batches,
    documents,
    results,
    usage,
    events,
    customers,
    keys,
    policy,
    webhooks,
    health,
    pipelines,
    document_results,
    jobs,
)
PAGES = (
    login,
    overview,
    priority,
    zip_download,
    links,
    customer_link,
    customer_pages,
    document_pages,
    decisions,
    live,
)
_SECONDS = {"schema": {"type": "integer"}}
_REQUEST_ID = {
    "description": "that of the request, or a new one; lines in the server's log end with it",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
}
STREAMS = frozenset(["/v1/events", "/live"])
"""Responses that do not end, so HEAD is not allowed."""


def create_app(context: ServerContext) -> ASGIApp:
    return guarded(create_inner(context), context)


def guarded(app: FastAPI, context: ServerContext) -> ASGIApp:
    """The application with its middleware."""
    return RequestGuard(DirectRoutes(app), context)


def create_inner(context: ServerContext) -> FastAPI:
    """The application without middleware."""
    app = FastAPIOffline(
        title="Fairlead",
        version=fairlead.__version__,
        description="Processes documents for many customers, with fair priorities.",
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
        routes=[route for module in (*API, *PAGES) for route in module.router.routes],
    )
    _add_head(app)
    app.state.context = context
    app.router.default = unknown_url
    # RequestGuard handles errors, so the framework's own middleware for them is left out.
    app.middleware_stack = AsyncExitStackMiddleware(app.router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _add_head(app: FastAPI) -> None:
    for route in app.routes:
        if isinstance(route, APIRoute) and route.methods and route.path not in STREAMS:
            route.methods |= {"HEAD"} if "GET" in route.methods else set()


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: ServerContext = app.state.context
    context.open()
    try:
        yield
    finally:
        context.close()


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=[_without_head(route) for route in app.routes],
        )
        app.openapi_schema = _complete_document(document)
    return app.openapi_schema


def _without_head(route: BaseRoute) -> BaseRoute:
    if not isinstance(route, APIRoute):
        return route
    listed = copy(route)
    listed.methods = (route.methods or set()) - {"HEAD"}
    return listed


def _complete_document(document: dict[str, Any]) -> dict[str, Any]:
    """Add the authentication scheme and an example of each schema; drop FastAPI's error schemas."""
    parts = document.setdefault("components", {}).setdefault("schemas", {})
    parts.pop("HTTPValidationError", None)
    parts.pop("ValidationError", None)
    parts |= schemas.components()
    document["components"]["headers"] = {"RequestId": _REQUEST_ID}
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            operation["summary"] = _summary(operation)
            _complete_operation(operation, needs_key=path.startswith("/v1"), writes=method != "get")
    for name in EXAMPLES:
        parts[name]["example"] = EXAMPLES[name]
    submit = document["paths"]["/v1/documents"]["post"]["responses"]["202"]
    submit["headers"] |= {"Location": {"schema": {"type": "string"}}, "Retry-After": _SECONDS}
    return document


def _summary(operation: dict[str, Any]) -> str:
    """The operation's id in words: "List documents" for `listDocuments`."""
    words = re.sub(r"([A-Z])", r" \1", operation["operationId"]).lower()
    return words[:1].upper() + words[1:]


def _complete_operation(operation: dict[str, Any], *, needs_key: bool, writes: bool) -> None:
    responses = operation["responses"]
    if writes:
        responses["507"] = schemas.problems("disk-full")[507]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    if needs_key:
        operation["security"] = [{"key": []}]
    if "application/json" in operation.get("requestBody", {}).get("content", {}):
        responses["415"] = schemas.problems("unsupported-media-type")[415]
    for response in responses.values():
        response["headers"] = {"X-Request-ID": {"$ref": "#/components/headers/RequestId"}}
    if "429" in responses:
        responses["429"]["headers"] |= {"Retry-After": _SECONDS}
