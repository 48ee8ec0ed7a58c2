"""/: the overview for operators, and for a customer its own page."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.server.dashboard import texts
from fairlead.server.dashboard.charts import flow_chart, pending_chart
from fairlead.server.dashboard.customers import customer_page
from fairlead.server.dashboard.last_hour import HEAVY, LEVELS, LIGHT
from fairlead.server.dashboard.page import PageRequest, PageRoute, caller_page
from fairlead.server.dashboard.rows import figures, longest_waits, step_rows

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def overview(request: Request) -> Response:
    page = await caller_page(request)
    if page.caller.customer is not None:
        return await customer_page(page, page.caller.customer)
    content = await page.context.ask(_content, page)
    bounds = {"light": LIGHT, "heavy": HEAVY}
    classes = []
    for code, text in texts.CLASSES.items():
        named = {name: bound for name, bound in bounds.items() if f"{{{name}}}" in text}
        classes.append((code, page.translator.text(text, **named)))
    return page.show("overview.html", classes=classes, **content)


def _content(page: PageRequest) -> dict[str, Any]:
    fairlead, live_view = page.fairlead, page.context.live_view
    capacity = fairlead.queue.capacity()
    now, last_hour = fairlead.store.now(), live_view.last_hour
    rows = live_view.rows(fairlead.store.customers())
    tallies, fairness = fairlead.store.tallies(), fairlead.queue.fairness()
    return {
        "figures": figures(rows, tallies, fairness, last_hour, last_hour.waits_by_class(), now),
        "waits": longest_waits(rows),
        "workers": live_view.workers(),
        "steps": step_rows(capacity),
        "pulled": [(step.step, len(step.keys)) for step in capacity.pulled],
        "problems": [page.translator.message(problem.message) for problem in capacity.problems],
        "pending": pending_chart(list(last_hour.samples), now),
        "flow": flow_chart(dict(last_hour.arrived), dict(last_hour.ended), now),
        "customers": len(rows),
        "documents": sum(tally.documents for tally in tallies),
        "has_more_levels": any(tally.priority > LEVELS for tally in tallies),
    }
