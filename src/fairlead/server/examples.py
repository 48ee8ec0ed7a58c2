"""An example of everything that goes in and out, for the OpenAPI document.

They are kept apart from the schemas because FastAPI drops every null from the examples of those.
"""

from __future__ import annotations

from typing import Any

from fairlead.server.problems import body

_ID = "01m7gnankk8v2x4c6b0d9f1h3j"
_WEBHOOK_ID = "01m7gnb2rs5t7w9y0a1c3e5g7h"
_DELIVERY_ID = "01m7gnc8m4n6p8q0r2s4t6v8w0"
_KEY_ID = "7q2m4n9x0z3k"
_NOON = "2026-01-31T12:00:00.000Z"

_DOCUMENT: dict[str, Any] = {
    "id": _ID,
    "customer": "acme",
    "name": "invoice.pdf",
    "size": 18_231,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "kind": None,
    "state": "waiting",
    "priority": 1,
    "count": 0,
    "policy": "classic/1",
    "urgent": False,
    "submitted_at": _NOON,
    "started_at": None,
    "finished_at": None,
    "estimate": 0.02,
    "seconds": None,
    "attempts": 0,
    "error": None,
    "detail": None,
    "parent": None,
    "facts": {},
}
_REASON = {
    "code": "count-not-below",
    "params": {"count": -1, "bound": -2, "priority": 1},
    "words": "count −1 is not below −2: priority 1",
}
_CUSTOMER = {
    "name": "acme",
    "pending": 2,
    "waiting": 1,
    "processing": 1,
    "count": -1,
    "next_priority": 1,
    "resets_in": 1500,
    "oldest_wait": 0.8,
    "paused": False,
    "account": None,
    "weight": 1.0,
    "processing_cap": None,
    "pending_cap": 1000,
    "requests_a_second": None,
    "requests_burst": None,
    "bytes_a_day": None,
    "reset_interval": None,
    "thresholds": None,
    "created_at": _NOON,
}
_FAIRNESS = {
    "policy": "classic",
    "workers": 2,
    "waiting_customers": 1,
    "jain_index": None,
    "most_overdue": {"customer": "acme", "seconds": 0.8},
    "lane_share": None,
    "longest_document": 1.2,
    "start_bound": None,
    "bound_broken": False,
    "accounts": [{"name": "acme", "done": 0.4, "due": 0.8, "lag": 0.4}],
}
_KEY = {
    "id": _KEY_ID,
    "customer": "acme",
    "operator": False,
    "created_at": _NOON,
    "revoked_at": None,
}
_LIMITS = {
    "max_document_bytes": 1_000_000_000,
    "max_upload_bytes": 2_000_000_000,
    "max_upload_files": 100,
}
_ENTRY = {
    "seq": 9,
    "at": _NOON,
    "kind": "customer-set",
    "customer": "acme",
    "document": None,
    "data": {"weight": 2.0},
    "actor": _KEY_ID,
}
_WEBHOOK = {
    "id": _WEBHOOK_ID,
    "customer": "acme",
    "url": "https://example.com/hook",
    "kinds": ["document.done", "document.failed"],
    "enabled": True,
    "created_at": _NOON,
    "failing_since": None,
    "disabled_because": None,
}
_DELIVERY = {
    "id": _DELIVERY_ID,
    "webhook": _WEBHOOK_ID,
    "kind": "document.done",
    "document": _ID,
    "status": "delivered",
    "created_at": _NOON,
    "attempts": 1,
    "next_at": None,
    "last_at": "2026-01-31T12:00:00.250Z",
    "code": 204,
    "answer": "",
    "error": None,
}

EXAMPLES: dict[str, Any] = {
    "Audit": {"entries": [_ENTRY], "next": None},
    "Changes": {"weight": 2.0, "pending_cap": 1000},
    "Customer": _CUSTOMER,
    "Customers": {"customers": [_CUSTOMER], "fairness": _FAIRNESS},
    "Deliveries": {"deliveries": [_DELIVERY], "next": None},
    "Delivery": _DELIVERY,
    "Document": _DOCUMENT,
    "Documents": {"documents": [_DOCUMENT]},
    "Entry": _ENTRY,
    "Key": _KEY,
    "KeyWanted": {"customer": "acme"},
    "Keys": {"keys": [_KEY]},
    "Limits": _LIMITS,
    "Me": {"key": _KEY_ID, "customer": "acme", "limits": _LIMITS},
    "NewCustomer": {"name": "acme"},
    "NewKey": {"key": f"fl_{_KEY_ID}_{'example' * 6}0"} | _KEY,
    "NewWebhook": {"url": "https://example.com/hook", "kinds": ["document.done"]},
    "Page": {"documents": [_DOCUMENT], "next": _ID},
    "Problem": body("unknown-document", f"no document has the id '{_ID}'; check the id"),
    "Reason": _REASON,
    "State": "waiting",
    "Text": {
        "id": _ID,
        "kind": "pdf",
        "text": "Invoice 4711\n\nTwo lamps: 118.00 EUR",
        "facts": {"pages": 1},
    },
    "Webhook": _WEBHOOK,
    "WebhookChanges": {"enabled": True},
    "WebhookWithSecret": _WEBHOOK | {"secret": "whsec_ZXhhbXBsZWV4YW1wbGVleGFtcGxlZXhhbXBsZTE="},
    "Webhooks": {"webhooks": [_WEBHOOK]},
    "Why": {
        "id": _ID,
        "reasons": [_REASON],
        "position": 3,
        "ahead": {
            "own_documents": 1,
            "other_documents": 1,
            "other_customers": 1,
            "seconds": 0.04,
        },
        "forecast": {
            "expected": "2026-01-31T12:00:02.000Z",
            "low": "2026-01-31T12:00:01.500Z",
            "high": "2026-01-31T12:00:03.000Z",
        },
    },
}
"""By the names of the schemas."""
