"""The page of one customer as a link, without a session: read-only, and sites may embed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.i18n import LANGUAGES, translator
from fairlead.server.context import context_of
from fairlead.server.dashboard.page import (
    CONTENT_SECURITY_POLICY,
    HEADERS,
    PageRequest,
    PageRoute,
    show,
    translator_for,
)
from fairlead.server.dashboard.priority import priority_content


class LinkRoute(PageRoute):
    """The address of a link is a secret: no request that the page causes carries it as Referer."""

    layout = "bare.html"

    def headers(self, request: Request) -> Mapping[str, str]:
        headers = HEADERS | {"Referrer-Policy": "no-referrer"}
        sites = context_of(request).settings().frame_ancestors
        if sites:
            headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY + " ".join(sites)
            del headers["X-Frame-Options"]
        return headers


router = APIRouter(route_class=LinkRoute, include_in_schema=False)


@router.get("/priority/{link}")
async def priority(
    request: Request, link: str, language: Annotated[str, Query(max_length=10)] = ""
) -> Response:
    """The page of the customer whose link it is, in the language that its address names."""
    context = context_of(request)
    caller = await context.auth.link_holder(request, link)
    words = translator(language) if language in LANGUAGES else translator_for(request)
    page = PageRequest(request, context, caller, words)
    content = await context.ask(priority_content, page, caller.customer or "")
    return show(request, "priority.html", page=page, layout=LinkRoute.layout, **content)
