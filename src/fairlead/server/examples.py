"""An example of everything that goes in and out, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from fairlead.model.customers import Customer, Customers, Fairness, Overdue, Share
from fairlead.model.documents import Audit, Document, Documents, Event, EventKind, Page, Text
from fairlead.model.explanations import CustomerAhead, Explanation, Forecast, Place, Reason
from fairlead.model.json import to_dict
from fairlead.model.keys import Key, Keys, Limits, Me, NewKey
from fairlead.model.states import State
from fairlead.model.webhooks import (
    Deliveries,
    Delivery,
    Status,
    Webhook,
    Webhooks,
    WebhookWithSecret,
)
from fairlead.server.problems import body

_ID = "01m7gnankk8v2x4c6b0d9f1h3j"
_WEBHOOK_ID = "01m7gnb2rs5t7w9y0a1c3e5g7h"
_KEY_ID = "7q2m4n9x0z3k"
_NOON = 1_769_860_800.0  # 2026-01-31T12:00:00.000Z

_DOCUMENT = Document(
    id=_ID,
    customer="acme",
    name="invoice.pdf",
    size=18_231,
    sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    kind=None,
    state=State.WAITING,
    priority=1,
    count=0,
    policy="classic/1",
    urgent=False,
    submitted_at=_NOON,
    estimate=0.02,
)
_CUSTOMER = Customer(
    name="acme",
    pending=2,
    waiting=1,
    processing=1,
    count=-1,
    next_priority=1,
    resets_in=1500,
    oldest_wait=0.8,
    paused=False,
    created_at=_NOON,
)
_FAIRNESS = Fairness(
    policy="classic",
    workers=2,
    waiting_customers=1,
    jain_index=None,
    most_overdue=Overdue("acme", 0.8),
    lane_share=None,
    longest_document=1.2,
    start_bound=None,
    bound_broken=False,
    accounts=(Share("acme", 0.4, 0.8, 0.4),),
)
_KEY = Key(id=_KEY_ID, customer="acme", operator=False, created_at=_NOON)
_EVENT = Event(9, _NOON, EventKind.CUSTOMER_SET, "acme", None, {"weight": 2.0}, _KEY_ID)
_KINDS = ("document.done", "document.failed")
_WEBHOOK = Webhook(
    _WEBHOOK_ID, "acme", "https://example.com/hook", _KINDS, enabled=True, created_at=_NOON
)
_DELIVERY = Delivery(
    id=f"msg_{_WEBHOOK_ID}_7",
    webhook=_WEBHOOK_ID,
    kind="document.done",
    document=_ID,
    status=Status.DELIVERED,
    created_at=_NOON,
    attempts=1,
    next_at=None,
    last_at=_NOON + 0.25,
    code=204,
    answer="",
)
_PARAMS = {"count": -1, "bound": -2, "priority": 1}
_WHY = Explanation(
    id=_ID,
    reasons=(Reason("count-not-below", _PARAMS, "count −1 is not below −2: priority 1"),),
    position=3,
    ahead=Place(1, 1, 1, 0.04, (CustomerAhead("brine", 1),)),
    forecast=Forecast(_NOON + 2, _NOON + 1.5, _NOON + 3),
)
_SECRET = "whsec_ZXhhbXBsZWV4YW1wbGVleGFtcGxlZXhhbXBsZTE="  # noqa: S105 (an example)
_RECORDS: list[Any] = [
    Page([_DOCUMENT], _ID),
    Documents([_DOCUMENT]),
    Text(_ID, "pdf", {"pages": 1}, "Invoice 4711\n\nTwo lamps: 118.00 EUR"),
    Customers([_CUSTOMER], _FAIRNESS),
    Keys([_KEY]),
    NewKey(f"fl_{_KEY_ID}_{'example' * 6}0", **asdict(_KEY)),
    Me(_KEY_ID, "acme", Limits(1_000_000_000, 2_000_000_000, 100)),
    Audit([_EVENT], None),
    Webhooks([_WEBHOOK]),
    WebhookWithSecret(**asdict(_WEBHOOK), secret=_SECRET),
    Deliveries([_DELIVERY], None),
    _WHY,
]


def _within(value: Any) -> Iterator[tuple[str, Any]]:
    """A record and all that are in it, by the names of their types."""
    if isinstance(value, Struct):
        yield type(value).__name__, to_dict(value)
        for part in asdict(value).values():
            yield from _within(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _within(part)
    elif isinstance(value, Enum):
        yield type(value).__name__, value.value


EXAMPLES: dict[str, Any] = {
    "Changes": {"weight": 2.0, "account": "brine"},
    "KeyWanted": {"customer": "acme"},
    "NewCustomer": {"name": "acme"},
    "NewWebhook": {"url": "https://example.com/hook", "kinds": ["document.done"]},
    "Problem": body("unknown-document", f"no document has the id '{_ID}'; check the id"),
    "WebhookChanges": {"enabled": True},
    **{name: example for record in _RECORDS for name, example in _within(record)},
}
"""By the names of the schemas."""
