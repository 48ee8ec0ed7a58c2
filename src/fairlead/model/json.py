"""Things as every JSON of ours shows them, on the command line and over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fairlead.model.access_keys import Key
from fairlead.model.documents import Event, Place
from fairlead.model.json_document import CustomerView, rfc3339
from fairlead.model.webhooks import Delivery, Webhook
from fairlead.policy.explain import Explanation, Reason
from fairlead.policy.fairness import Fairness
from fairlead.policy.forecast import Forecast


def customer_json(customer: CustomerView) -> dict[str, Any]:
    """A customer as every JSON of ours shows it."""
    return asdict(customer) | {"created_at": rfc3339(customer.created_at)}


def fairness_json(found: Fairness) -> dict[str, Any]:
    """The fairness figures as every JSON of ours shows them."""
    return {
        "policy": found.policy,
        "workers": found.workers,
        "waiting_customers": found.waiting_customers,
        "jain_index": found.jain,
        "most_overdue": found.most_overdue and found.most_overdue._asdict(),
        "lane_share": found.lane_share,
        "longest_document": found.longest,
        "start_bound": found.start_bound,
        "bound_broken": found.is_bound_broken,
        "accounts": [each._asdict() | {"lag": each.lag} for each in found.shares],
    }


def key_json(key: Key) -> dict[str, Any]:
    """A key as every JSON of ours shows it: never its secret, nor what is kept of that."""
    return {
        "id": key.id,
        "customer": key.customer,
        "operator": key.is_operator,
        "created_at": rfc3339(key.created_at),
        "revoked_at": rfc3339(key.revoked_at),
    }


def webhook_json(webhook: Webhook) -> dict[str, Any]:
    """A webhook as every JSON of ours shows it: never its secret."""
    return {
        "id": webhook.id,
        "customer": webhook.customer,
        "url": webhook.url,
        "kinds": list(webhook.kinds),
        "enabled": webhook.enabled,
        "created_at": rfc3339(webhook.created_at),
        "failing_since": rfc3339(webhook.failing_since),
        "disabled_because": webhook.disabled_because,
    }


def delivery_json(delivery: Delivery) -> dict[str, Any]:
    """A delivery as every JSON of ours shows it."""
    return {
        "id": delivery.id,
        "webhook": delivery.webhook,
        "kind": delivery.kind,
        "document": delivery.document,
        "status": delivery.status.value,
        "created_at": rfc3339(delivery.created_at),
        "attempts": delivery.attempts,
        "next_at": rfc3339(delivery.next_at),
        "last_at": rfc3339(delivery.last_at),
        "code": delivery.code,
        "answer": delivery.answer,
        "error": delivery.error,
    }


def event_json(event: Event) -> dict[str, Any]:
    """An event as operators see it."""
    return {
        "seq": event.seq,
        "at": rfc3339(event.at),
        "kind": event.kind.value,
        "customer": event.customer,
        "document": event.document,
        "data": dict(event.data),
        "actor": event.actor,
    }


def why_json(
    found: Explanation, words: Callable[[Reason], str], *, with_others: bool
) -> dict[str, Any]:
    """An explanation in somebody's words; who the others are is for operators only."""
    reasons = [
        {"code": each.code, "params": dict(each.params), "words": words(each)}
        for each in found.reasons
    ]
    ahead = _ahead_json(found.place)
    if ahead is not None and not with_others:
        del ahead["most"]
    return {
        "id": found.id,
        "reasons": reasons,
        "position": found.position,
        "ahead": ahead,
        "forecast": _forecast_json(found.forecast),
    }


def _forecast_json(found: Forecast | None) -> dict[str, str | None] | None:
    if found is None:
        return None
    return {name: rfc3339(at) for name, at in found._asdict().items()}


def _ahead_json(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {
        "own_documents": place.own_documents,
        "other_documents": place.other_documents,
        "other_customers": place.other_customers,
        "seconds": round(place.seconds, 3),
        "most": [{"customer": name, "documents": number} for name, number in place.most],
    }
