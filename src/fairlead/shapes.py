"""Things as every JSON of ours shows them, on the command line and over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.app import Fairlead
from fairlead.core.access import Key
from fairlead.core.classic import ClassicPolicy
from fairlead.core.documents import Customer, Event, Place
from fairlead.core.explain import Explanation, Reason, why_reset
from fairlead.core.fairness import Fairness
from fairlead.core.forecast import Forecast
from fairlead.core.shown import moment
from fairlead.core.webhooks import Delivery, Webhook


def customer_json(fairlead: Fairlead, customer: Customer) -> dict[str, Any]:
    """A customer as every JSON of ours shows it."""
    own = customer.settings
    return {
        "name": customer.name,
        "pending": customer.pending,
        "waiting": customer.waiting,
        "processing": customer.processing,
        "count": _count(fairlead, customer),
        "next_priority": fairlead.next_priority(customer),
        "resets_in": _resets_in(fairlead, customer),
        "oldest_wait": wait_of(fairlead, customer),
        "paused": customer.paused,
        "account": own.account,
        "weight": own.weight,
        "processing_cap": own.processing_cap,
        "pending_cap": own.pending_cap,
        "reset_interval": own.reset_interval,
        "thresholds": own.thresholds,
        "created_at": moment(customer.created_at),
    }


def _count(fairlead: Fairlead, customer: Customer) -> int | None:
    """The classic rule's count; under fair the one that the next document would be shown."""
    if isinstance(fairlead.policy_of(customer), ClassicPolicy):
        return customer.counter.count if customer.counter else None
    return fairlead.next_place(customer).count


def _resets_in(fairlead: Fairlead, customer: Customer) -> int | None:
    """After how many seconds without a document the customer starts over, if it has to wait."""
    policy = fairlead.policy_of(customer)
    if isinstance(policy, ClassicPolicy):
        left: int | None = why_reset(policy, customer, fairlead.now()).params.get("seconds")
        return left
    if customer.tags is None or customer.pending:
        return None
    return max(0, round(customer.tags.submitted_at + policy.reset_interval - fairlead.now()))


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


def wait_of(fairlead: Fairlead, customer: Customer) -> float | None:
    """How long the customer's oldest waiting document has waited."""
    if customer.oldest_waiting_at is None:
        return None
    return max(0.0, fairlead.now() - customer.oldest_waiting_at)


def key_json(key: Key) -> dict[str, Any]:
    """A key as every JSON of ours shows it: never its secret, nor what is kept of that."""
    return {
        "id": key.id,
        "customer": key.customer,
        "operator": key.is_operator,
        "created_at": moment(key.created_at),
        "revoked_at": moment(key.revoked_at),
    }


def webhook_json(webhook: Webhook) -> dict[str, Any]:
    """A webhook as every JSON of ours shows it: never its secret."""
    return {
        "id": webhook.id,
        "customer": webhook.customer,
        "url": webhook.url,
        "kinds": list(webhook.kinds),
        "enabled": webhook.enabled,
        "created_at": moment(webhook.created_at),
        "failing_since": moment(webhook.failing_since),
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
        "created_at": moment(delivery.created_at),
        "attempts": delivery.attempts,
        "next_at": moment(delivery.next_at),
        "last_at": moment(delivery.last_at),
        "code": delivery.code,
        "answer": delivery.answer,
        "error": delivery.error,
    }


def event_json(event: Event) -> dict[str, Any]:
    """An event as operators see it."""
    return {
        "seq": event.seq,
        "at": moment(event.at),
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
        "id": found.document.id,
        "reasons": reasons,
        "ahead": ahead,
        "forecast": _forecast_json(found.forecast),
    }


def _forecast_json(found: Forecast | None) -> dict[str, str | None] | None:
    if found is None:
        return None
    return {name: moment(at) for name, at in found._asdict().items()}


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
