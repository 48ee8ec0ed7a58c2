"""Customers: the table, the page of one customer, its settings, and decisions of operators."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import InvalidSetting
from fairlead.model.customers import LONGEST_REASON, Setting, customer_settings
from fairlead.model.usage import DAY, day_name
from fairlead.server.dashboard import texts
from fairlead.server.dashboard.charts import staircase_chart
from fairlead.server.dashboard.last_hour import LEVELS, staircase, thinned
from fairlead.server.dashboard.page import (
    PageRequest,
    PageRoute,
    check_may_change,
    form_of,
    operator_page,
    query,
    redirect,
)
from fairlead.server.dashboard.rows import (
    SHOWS,
    SORTS,
    document_rows,
    filtered_rows,
    sorted_rows,
)
from fairlead.server.problems import Problem, not_found

ROWS = 100
MOST_ROWS = 1000
NEWEST = 20
CHECKS, STEPS = 10_000, 500
"""The newest checks that the staircase chart is made of, and about how many of them it draws."""
USAGE_DAYS = 30
"""Days of usage on the page of a customer."""
FORM = [setting for setting in customer_settings() if setting.label]
"""The settings that the dashboard shows and changes."""

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Name = Annotated[str, Query(max_length=1000)]


@router.get("/customers")
async def list_page(
    request: Request,
    *,
    text: Name = "",
    show_: Annotated[str, Query(alias="show", max_length=20)] = "all",
    sort: Annotated[str, Query(max_length=20)] = "oldest",
    down: bool = False,
    number: Annotated[int, Query(alias="page", ge=1, le=10**6)] = 1,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = ROWS,
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    page = await operator_page(request)
    if sort not in SORTS or show_ not in SHOWS:
        text = f"sort must be one of {', '.join(SORTS)}; show one of {', '.join(SHOWS)}"
        raise Problem("invalid-request", text)
    context = page.context
    rows = await context.ask(lambda: context.live_view.rows(context.fairlead.store.customers()))
    matching = sorted_rows(filtered_rows(rows, text, show_), sort, reverse=down)
    first = (number - 1) * limit
    chosen = {"text": text, "show": show_, "sort": sort, "down": down, "limit": limit}
    return page.show(
        "customers.html",
        notice=_notice(page, done),
        rows=matching[first : first + limit],
        first=first,
        matching=len(matching),
        all_customers=len(rows),
        chosen=chosen,
        page_query=lambda step: query(**chosen, page=number + step),
        number=number,
        shows={code: page.translator.text(text) for code, text in texts.SHOWS.items()},
        usual_limit=ROWS,
    )


@router.get("/customer")
async def detail_page(request: Request, name: Name, done: str = "") -> Response:
    page = await operator_page(request)
    return await customer_page(page, name, notice=_notice(page, done))


def _notice(page: PageRequest, done: str) -> str | None:
    text = texts.DONE_WITH_CUSTOMER.get(done)
    return text and page.translator.text(text)


async def customer_page(page: PageRequest, name: str, *, notice: str | None = None) -> Response:
    content = await page.context.ask(_content, page, name)
    return page.show("customer.html", notice=notice, upload_as=name, **content)


def _content(page: PageRequest, name: str) -> dict[str, Any]:
    fairlead, live_view = page.fairlead, page.context.live_view
    customer, now = fairlead.store.customer(name), fairlead.store.now()
    documents = fairlead.documents(customer=name, limit=NEWEST).items
    steps = staircase(fairlead.store.latest_checks(name, CHECKS))
    first_day = day_name(int(now) // DAY - USAGE_DAYS + 1)
    return {
        "customer": customer,
        "settings": FORM,
        "row": live_view.rows([customer])[0],
        "rows": document_rows(fairlead, documents, for_operator=page.caller.is_operator),
        "stairs": staircase_chart(thinned(steps, STEPS), now),
        "waits": live_view.last_hour.waits_of(name),
        "usage": fairlead.customers.usage(name, since=first_day)[::-1],
        "has_more_levels": any(step.priority > LEVELS for step in steps),
    }


# --- decisions ---


@router.get("/customer/set")
async def settings_page(request: Request, name: Name) -> Response:
    page = await operator_page(request)
    check_may_change(page)
    customer = await page.context.ask(page.fairlead.store.customer, name)
    values = {setting.name: _text(getattr(customer.settings, setting.name)) for setting in FORM}
    form: dict[str, Any] = {"entered": values, "before": values, "is_wrong": False}
    return page.show("settings.html", name=name, settings=FORM, **form)


@router.post("/customer/set")
async def change_settings(request: Request) -> Response:
    """Change the settings that differ from what the form showed.

    The others stay as they are, even if they were changed since.
    """
    page = await operator_page(request)
    form = await form_of(request)
    name = form.pop("name", "")
    entered = {setting.name: form.get(setting.name, "").strip() for setting in FORM}
    before = {setting.name: form.get(f"{setting.name}_before", "") for setting in FORM}
    changed = [setting for setting in FORM if entered[setting.name] != before[setting.name]]
    set_customer = page.fairlead.customers.set
    try:
        changes = {setting.name: _value(setting, entered[setting.name]) for setting in changed}
        await page.context.ask(set_customer, name, by=page.caller.key_id, **changes)
    except (InvalidSetting, ValueError, OverflowError):
        wrong: dict[str, Any] = {"entered": entered, "before": before, "is_wrong": True}
        return page.show("settings.html", status=400, name=name, settings=FORM, **wrong)
    return redirect("/customer", name=name, done="set")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def _value(setting: Setting, text: str) -> Any:
    if not text:
        return None
    return int(text) if setting.is_whole else float(text.replace(",", "."))


@router.get("/customer/{decision}")
async def confirm_page(request: Request, decision: str, name: Name) -> Response:
    page = await operator_page(request)
    check_may_change(page)
    question, follows, button = _texts_of(decision)
    await page.context.ask(page.fairlead.store.customer, name)
    return page.show(
        "confirm.html",
        question=page.translator.text(question, customer=name),
        follows=[page.translator.text(follows)],
        button=page.translator.text(button),
        action=f"/customer/{decision}",
        fields=[("name", name)],
        back=("/customer", {"name": name}),
        is_grave=decision not in ("resume", "unblock"),
        longest_reason=LONGEST_REASON if decision == "block" else None,
    )


@router.post("/customer/{decision}")
async def decide(request: Request, decision: str) -> Response:
    page = await operator_page(request)
    _texts_of(decision)
    form = await form_of(request)
    name = form.get("name", "")
    reason = {"reason": form.get("reason", "").strip()} if decision == "block" else {}
    method = getattr(page.fairlead.customers, decision)
    await page.context.ask(method, name, by=page.caller.key_id, **reason)
    if decision == "delete":
        return redirect("/customers", done=decision)
    return redirect("/customer", name=name, done=decision)


def _texts_of(decision: str) -> tuple[str, str, str]:
    if decision not in texts.DECISIONS:
        raise not_found()
    return texts.DECISIONS[decision]
