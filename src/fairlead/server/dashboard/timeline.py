"""The history and the attempts of a document, from its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fairlead.i18n import Translator
from fairlead.model.documents import Event, EventKind
from fairlead.server.dashboard.rows import short_worker
from fairlead.server.dashboard.texts import FAILURES, HISTORY

RETRY_LATER = "retry-later"
"""The error of an attempt whose step asked to be called again later."""
MOVED = "moved"
"""The outcome of an attempt after which the document waits for its next steps."""
_OUTCOMES = {
    EventKind.DONE: "done",
    EventKind.FAILED: "failed",
    EventKind.REQUEUED: "retried",
    EventKind.RELEASED: "released",
    EventKind.RESCUED: "rescued",
    EventKind.CANCELLED: "cancelled",
}


class TimelineEvent(NamedTuple):
    """One entry. `after` are the seconds since the entry before."""

    at: float
    kind: str
    text: str
    after: float | None
    by: str | None


def timeline(
    events: Sequence[Event], translator: Translator, *, is_operator: bool
) -> list[TimelineEvent]:
    """The entries of the history; only operators see actors. Of progress only the newest stays."""
    entries: list[TimelineEvent] = []
    starts = 0
    for event in events:
        starts += event.kind is EventKind.CLAIMED
        if event.kind.value not in HISTORY:
            continue
        if entries and event.kind is EventKind.PROGRESS and entries[-1].kind == "progress":
            entries.pop()
        after = event.at - entries[-1].at if entries else None
        by = event.actor if is_operator else None
        kind = _kind(event)
        text = _text(event, kind, translator, starts, is_operator=is_operator)
        entries.append(TimelineEvent(event.at, kind, text, after, by))
    return entries


def _kind(event: Event) -> str:
    """The kind of an event; a retry that a step asked for, and a move, are kinds of their own."""
    if event.data.get("error") == RETRY_LATER:
        return "later"
    if event.kind is EventKind.RELEASED and "queue" in event.data:
        return MOVED
    return event.kind.value


def _text(
    event: Event, code: str, translator: Translator, starts: int, *, is_operator: bool
) -> str:
    data: dict[str, Any] = dict(event.data)
    if event.kind is EventKind.CLAIMED:
        code = ("claimed-lane" if data.get("lane") else "claimed") if is_operator else "began"
        data = {"attempt": starts, "worker": short_worker(str(data.get("worker")))}
    for name in ("seconds", "delay"):
        if name in data:
            data[name] = translator.span(data[name] or 0.0)
    if "error" in data:
        data["error"] = translator.text(FAILURES.get(data["error"], data["error"]))
    text = HISTORY[code]
    params = {name: value for name, value in data.items() if f"{{{name}}}" in text}
    return translator.text(text, **params)


class Attempt(NamedTuple):
    """One attempt to process a document. Without `ended`, it runs."""

    number: int
    worker: str
    began: float
    ended: float | None = None
    outcome: str | None = None
    error: str | None = None
    step: str | None = None


def attempts(events: Sequence[Event]) -> list[Attempt]:
    all_attempts: list[Attempt] = []
    for event in events:
        if event.kind is EventKind.CLAIMED:
            worker = short_worker(str(event.data.get("worker", "")))
            all_attempts.append(Attempt(len(all_attempts) + 1, worker, event.at))
        elif event.kind in _OUTCOMES and all_attempts and all_attempts[-1].ended is None:
            all_attempts[-1] = all_attempts[-1]._replace(
                ended=event.at,
                outcome=MOVED if _kind(event) == MOVED else _OUTCOMES[event.kind],
                error=event.data.get("error"),
                step=event.data.get("step"),
            )
    return all_attempts
