"""An example of each schema, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from fairlead.model.batches import Batch
from fairlead.model.capacity import Capacity
from fairlead.model.customers import Customer, Customers, Fairness
from fairlead.model.documents import (
    Audit,
    Document,
    Documents,
    EndedDocument,
    Event,
    EventKind,
    Page,
    PolicyInForce,
    Switched,
    Text,
)
from fairlead.model.explanations import CustomerAhead, Explanation, Forecast, Place, Reason
from fairlead.model.jobs import PulledJob, PulledJobList, RenewedJob
from fairlead.model.json import from_json, to_dict
from fairlead.model.keys import Key, Keys, Limits, LoginLink, NewKey, NewLink, link_path
from fairlead.model.pipeline_figures import PipelineFigures, PipelineList
from fairlead.model.result_summary import Cause, ResultSummary
from fairlead.model.usage import CustomerStanding, Me, Usage, UsageList
from fairlead.model.webhooks import Deliveries, Delivery, Webhook, Webhooks, WebhookWithSecret
from fairlead.server.problems import problem_details

_ID = "01m7gnankk8v2x4c6b0d9f1h3j"
_BATCH_ID = "01m7gnbz3c5e7g9j1m3p5r7t9w"
_KEY_ID = "7q2m4n9x0z3k"
_NOON = 1_769_860_800.0  # 2026-01-31T12:00:00.000Z
_SECRET = "whsec_ZXhhbXBsZWV4YW1wbGVleGFtcGxlZXhhbXBsZTE="  # noqa: S105 (an example)

_DOCUMENT = from_json(
    Document,
    """{"id": "01m7gnankk8v2x4c6b0d9f1h3j", "customer": "acme", "name": "invoice.pdf",
    "size": 18231, "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "kind": null, "state": "waiting", "priority": 1, "count": 0, "policy": "classic/1",
    "urgent": false, "submitted_at": "2026-01-31T12:00:00Z", "estimate": 0.02}""",
)
_CUSTOMER = from_json(
    Customer,
    """{"name": "acme", "pending": 2, "waiting": 1, "processing": 1, "count": -1,
    "next_priority": 1, "resets_in": 1500, "oldest_wait": 0.8, "paused": false,
    "created_at": "2026-01-31T12:00:00Z"}""",
)
_FAIRNESS = from_json(
    Fairness,
    """{"policy": "classic", "workers": 2, "waiting_customers": 1, "jain_index": null,
    "most_overdue": {"customer": "acme", "seconds": 0.8}, "lane_share": null,
    "longest_document": 1.2, "newcomer_bound": null, "start_bound": 1504.2,
    "bound_broken": false, "accounts": [{"name": "acme", "had_lately": 0.4, "share": 1.0,
    "behind": 0.0, "weight": 1.0, "waiting": 1}]}""",
)
_WEBHOOK = from_json(
    Webhook,
    """{"id": "01m7gnb2rs5t7w9y0a1c3e5g7h", "customer": "acme", "url": "https://example.com/hook",
    "kinds": ["document.done", "document.failed"], "enabled": true,
    "created_at": "2026-01-31T12:00:00Z"}""",
)
_DELIVERY = from_json(
    Delivery,
    """{"id": "msg_01m7gnb2rs5t7w9y0a1c3e5g7h_7", "webhook": "01m7gnb2rs5t7w9y0a1c3e5g7h",
    "kind": "document.done", "document": "01m7gnankk8v2x4c6b0d9f1h3j", "status": "delivered",
    "created_at": "2026-01-31T12:00:00Z", "attempts": 1, "next_at": null,
    "last_at": "2026-01-31T12:00:00.25Z", "code": 204, "answer": ""}""",
)
_PIPELINE = from_json(
    PipelineFigures,
    """{"name": "invoices", "steps": ["read", "invoices:fields"], "limit": "15/s",
    "max_running": 8, "waiting": 120, "processing": 8, "open_at": "2026-01-31T12:00:00.05Z",
    "ended": 840, "since": "2026-01-31T11:58:00Z", "failures": {"no-total": 3},
    "served": true, "problem": null}""",
)
_CAPACITY = from_json(
    Capacity,
    """{"workers": 4, "engines": 1,
    "steps": [{"step": "read", "capacity": 4, "busy": 4, "engines": 1, "problem": null},
      {"step": "invoices:fields", "capacity": 8, "busy": 3, "engines": 1, "problem": null}],
    "pulled": [{"step": "pull:vision", "keys": ["7q2m4n9x0z3k"]}],
    "problems": [{"queue": "crm", "cause": "step",
      "detail": "step crm:post: there is no module crm"}]}""",
)
_RESULT = from_json(
    ResultSummary,
    """{"id": "01m7gnankk8v2x4c6b0d9f1h3j", "kind": "pdf", "has_text": true,
    "data": {"total": "118.00"}, "files": [{"name": "stamped.pdf",
    "media_type": "application/pdf", "size": 18402,
    "sha256": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"}]}""",
)
_TOKEN = f"{_ID}.3141592653589793"
_JOB = PulledJob(
    token=_TOKEN,
    step="fields",
    document=_ID,
    customer="acme",
    name="invoice.pdf",
    kind="pdf",
    size=18402,
    sha256="60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
    attempt=1,
    lease=60.0,
    content=f"/v1/jobs/{_TOKEN}/content",
    text=f"/v1/jobs/{_TOKEN}/text",
    markdown=f"/v1/jobs/{_TOKEN}/markdown",
    data=None,
    pipeline="invoices",
    metadata={"order": 471},
)
_KEY = Key(id=_KEY_ID, customer="acme", operator=False, created_at=_NOON)
_STANDING = CustomerStanding(
    customer="acme",
    count=-1,
    next_priority=1,
    resets_at=_NOON + 1500,
    pending=2,
    processing=1,
    expected_end=_NOON + 4,
    limits=Limits(1_000_000_000, 2_000_000_000, 100, requests_a_second=100.0),
    usage=Usage("acme", "2026-01-31", 12, 40, 8, 1_830_112, 21.5, 1),
)
_PARAMS = {"count": -1, "bound": -2, "priority": 1}
_RECORDS: list[Any] = [
    Page([_DOCUMENT], _ID),
    Documents([_DOCUMENT], _BATCH_ID),
    Batch(
        _BATCH_ID,
        "acme",
        _NOON,
        finished_at=None,
        documents=4,
        waiting=1,
        processing=1,
        done=2,
        failed=0,
        cancelled=0,
        progress=0.5,
        expected_end=_NOON + 8,
    ),
    EndedDocument(**asdict(_DOCUMENT), cursor="1207"),
    Text(_ID, "pdf", {"pages": 1}, "Invoice 4711\n\nTwo lamps: 118.00 EUR"),
    Customers([_CUSTOMER], _FAIRNESS),
    Keys([_KEY]),
    NewLink(
        link_path(f"fl_{_KEY_ID}_{'example' * 6}0"), _KEY_ID, "acme", _NOON, _NOON + 30 * 86_400
    ),
    LoginLink(f"/login?token={'example' * 4}"),
    NewKey(f"fl_{_KEY_ID}_{'example' * 6}0", **asdict(_KEY)),
    Me("customer", "acme", _KEY_ID, **asdict(_STANDING)),
    _STANDING,
    UsageList([_STANDING.usage]),
    Audit([Event(9, _NOON, EventKind.CUSTOMER_SET, "acme", None, {"weight": 2.0}, _KEY_ID)], None),
    PolicyInForce("classic"),
    PipelineList([_PIPELINE], _CAPACITY),
    _RESULT,
    Cause(_ID, "Traceback (most recent call last): … ValueError: no total"),
    PulledJobList([_JOB]),
    RenewedJob(60.0),
    Switched("classic", "fair", 120, 7),
    Webhooks([_WEBHOOK]),
    WebhookWithSecret(**asdict(_WEBHOOK), secret=_SECRET),
    Deliveries([_DELIVERY], None),
    Explanation(
        id=_ID,
        reasons=(Reason("count-not-below", _PARAMS, "count −1 is not below −2: priority 1"),),
        position=3,
        ahead=Place(1, 1, 1, 0.04, (CustomerAhead("brine", 1),)),
        forecast=Forecast(_NOON + 2, _NOON + 1.5, _NOON + 3),
    ),
]


def _named_examples(value: Any) -> Iterator[tuple[str, Any]]:
    """The JSON of a record and of all records in it, with the names of their schemas."""
    if isinstance(value, Struct):
        yield type(value).__name__, to_dict(value)
        for field in asdict(value).values():
            yield from _named_examples(field)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named_examples(item)
    elif isinstance(value, Enum):
        yield type(value).__name__, value.value


EXAMPLES: dict[str, Any] = {
    "BlockWanted": {"reason": "the invoice of May is open"},
    "Changes": {"weight": 2.0, "account": "brine"},
    "DocumentChanges": {"urgent": True, "reference": "invoice-4711"},
    "JobProgress": {"done": 3, "total": 10},
    "JobRefusal": {"code": "no-total", "detail": "No total was found on this invoice."},
    "JobResult": {"text": "Invoice 471", "markdown": "# Invoice 471", "data": {"total": "118.00"}},
    "JobRetry": {"after": 60.0},
    "JobsWanted": {"steps": ["fields"], "max": 10, "wait": 20.0},
    "KeyWanted": {"customer": "acme"},
    "LinkWanted": {"days": 30},
    "NewCustomer": {"name": "acme"},
    "PolicyWanted": {"policy": "fair"},
    "RetryOptions": {"password": "open sesame"},
    "NewWebhook": {"url": "https://example.com/hook", "kinds": ["document.done"]},
    "Problem": problem_details("unknown-document", f"no document has the id '{_ID}'; check the id"),
    "WebhookChanges": {"enabled": True},
    **{name: example for record in _RECORDS for name, example in _named_examples(record)},
}
"""Examples by the names of the schemas."""
