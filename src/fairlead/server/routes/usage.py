"""/v1/usage: what customers used by day, as JSON or CSV."""

from __future__ import annotations

import csv
import io
from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec.structs import astuple
from starlette.responses import Response

from fairlead.errors import Message
from fairlead.model.usage import Usage, UsageList
from fairlead.server import schemas
from fairlead.server.context import authenticated
from fairlead.server.headers import best_type, header_list
from fairlead.server.problems import Problem

router = APIRouter(prefix="/v1", tags=["operators"])
_TYPES = ("application/json", "text/csv")
Day = Annotated[str | None, Query(pattern=r"^\d{4}-\d\d-\d\d$")]


@router.get(
    "/usage",
    operation_id="getUsage",
    response_class=Response,
    responses=schemas.answers(
        200,
        UsageList,
        "usage by day, by Accept",
        "unknown-customer",
        "not-acceptable",
        content={"text/csv": {"schema": {"type": "string"}}},
    ),
)
async def usage(
    request: Request,
    *,
    customer: Annotated[str | None, Query(max_length=200)] = None,
    since: Day = None,
    until: Day = None,
) -> Response:
    """Usage by day, UTC, as JSON or `text/csv`. Operators get all customers, or one.

    Usage stays when documents are deleted. The name of a deleted customer is null.
    """
    context, caller = await authenticated(request)
    customer = caller.customer_filter(customer)
    media_type = best_type(header_list(request.scope["headers"], b"accept"), _TYPES)
    if media_type is None:
        raise Problem(
            "not-acceptable", Message("usage is available as {types}", types=", ".join(_TYPES))
        )
    rows = await context.ask(context.fairlead.customers.usage, customer, since=since, until=until)
    headers = {"Vary": "Accept"}
    if media_type == "text/csv":
        return Response(as_csv(rows), 200, headers, "text/csv; charset=utf-8")
    return schemas.JSONResponse(UsageList(rows), headers=headers)


def as_csv(rows: list[Usage]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(Usage.__struct_fields__)
    writer.writerows(map(astuple, rows))
    return text.getvalue()
