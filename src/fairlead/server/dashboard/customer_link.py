"""The page of a customer behind a link, without a session: read-only; other sites may embed it."""

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
    translator_for,
)
from fairlead.server.dashboard.priority import priority_content


class LinkRoute(PageRoute):
    """The URL of a link is a secret, so the page sends no Referer."""

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
    """The page of the link's customer, in the language of the parameter or the request."""
    context = context_of(request)
    caller = await context.auth.link_holder(request, link)
    chosen = translator(language) if language in LANGUAGES else translator_for(request)
    page = PageRequest(request, context, caller, chosen)
    content = await context.ask(priority_content, page, caller.customer or "")
    return page.show("priority.html", layout=LinkRoute.layout, **content)
