"""How things are shown as JSON, the same everywhere: command line, HTTP, webhooks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from fairlead.model.documents import Document

_LEFT_OF_A_DELETED = frozenset(
    {"id", "customer", "state", "priority", "count", "policy", "urgent", "attempts", "error"}
    | {"submitted_at", "started_at", "finished_at", "parent"}
)
"""What the record of events tells of a document too; all else tells what it was."""


@lru_cache
def rfc3339(seconds: float | None) -> str | None:
    """A time as others write it, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def seconds_of(rfc3339: str | None) -> float | None:
    """The time that `moment` has written."""
    return None if rfc3339 is None else datetime.fromisoformat(rfc3339).timestamp()


@dataclass(frozen=True, slots=True)
class CustomerView:
    """A customer as it is shown everywhere. Its settings are None where they are as for everybody.

    `count` and `next_priority` are by the rule in force; `resets_in` and `oldest_wait` are seconds.
    """

    name: str
    pending: int
    waiting: int
    processing: int
    count: int | None
    next_priority: int
    resets_in: int | None
    oldest_wait: float | None
    paused: bool
    account: str | None
    weight: float
    processing_cap: int | None
    pending_cap: int | None
    requests_a_second: float | None
    requests_burst: int | None
    bytes_a_day: int | None
    reset_interval: float | None
    thresholds: tuple[int, ...] | None
    created_at: float


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
        "submitted_at": rfc3339(document.submitted_at),
        "started_at": rfc3339(document.started_at),
        "finished_at": rfc3339(document.finished_at),
        "estimate": document.estimate,
        "seconds": document.seconds,
        "attempts": document.attempts,
        "error": document.error,
        "detail": document.detail,
        "parent": document.parent,
        "facts": dict(document.facts),
    }


def deleted_json(shown: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a document that is deleted: all its keys, and null for all that it was."""
    return {key: value if key in _LEFT_OF_A_DELETED else None for key, value in shown.items()}
