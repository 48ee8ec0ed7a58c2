"""Links to the page of a customer, which operators create and revoke."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.model.keys import LINK_DAYS, MOST_DAYS, NewLink
from fairlead.server.dashboard.customers import Name
from fairlead.server.dashboard.page import PageRequest, PageRoute, form_of, operator_page, redirect
from fairlead.server.problems import Problem

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/customer/links")
async def links(request: Request, name: Name) -> Response:
    return await _links(await operator_page(request), name)


async def _links(page: PageRequest, name: str, new: NewLink | None = None) -> Response:
    links = await page.context.ask(page.fairlead.customers.links, name)
    return page.show(
        "links.html",
        name=name,
        links=links,
        new=new,
        days=LINK_DAYS,
        most_days=MOST_DAYS,
    )


@router.post("/customer/link")
async def add(request: Request) -> Response:
    """Create a link, and show it once."""
    page = await operator_page(request)
    form = await form_of(request)
    name, days = form.get("name", ""), form.get("days", "")
    if not days.isdecimal():
        raise Problem("invalid-request", "days must be a whole number")
    link = await page.context.ask(
        page.fairlead.customers.link, name, days=int(days), by=page.caller.key_id
    )
    return await _links(page, name, link)


@router.post("/customer/unlink")
async def revoke(request: Request) -> Response:
    page = await operator_page(request)
    form = await form_of(request)
    name, id_ = form.get("name", ""), form.get("id", "")
    await page.context.ask(page.fairlead.customers.revoke_link, name, id_, by=page.caller.key_id)
    page.context.auth.revoked(id_)
    return redirect("/customer/links", name=name)
