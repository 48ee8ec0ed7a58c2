"""How things are shown as JSON, the same everywhere: command line, HTTP, webhooks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fairlead.core.documents import Document


def moment(seconds: float | None) -> str | None:
    """A time as others write it, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def document_json(document: Document) -> dict[str, Any]:
    """A document as every JSON of ours shows it."""
    return {
        "id": document.id,
        "customer": document.customer,
        "name": document.name,
        "size": document.size,
        "sha256": document.sha256,
        "kind": document.kind,
        "state": document.state.value,
        "priority": document.priority,
        "count": document.count,
        "policy": document.policy,
        "urgent": document.urgent,
        "submitted_at": moment(document.submitted_at),
        "started_at": moment(document.started_at),
        "finished_at": moment(document.finished_at),
        "estimate": document.estimate,
        "seconds": document.seconds,
        "attempts": document.attempts,
        "error": document.error,
        "detail": document.detail,
        "parent": document.parent,
        "facts": dict(document.facts),
    }
