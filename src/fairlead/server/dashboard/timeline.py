"""The life of a document from its events: what happened when, and attempt by attempt. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fairlead.i18n import Translator
from fairlead.model.documents import Event, EventKind
from fairlead.server.dashboard.rows import short_worker
from fairlead.server.dashboard.texts import FAILURES, HISTORY

_OUTCOMES = {
    EventKind.DONE: "done",
    EventKind.FAILED: "failed",
    EventKind.REQUEUED: "retried",
    EventKind.RELEASED: "released",
    EventKind.RESCUED: "rescued",
    EventKind.CANCELLED: "cancelled",
}


class TimelineEvent(NamedTuple):
    """One line of a document's life; `after` is how long after the line before."""

    at: float
    kind: str
    words: str
    after: float | None
    by: str | None


def life(events: Sequence[Event], said: Translator, *, is_operator: bool) -> list[TimelineEvent]:
    """What happened, in words; who did it is for operators. Of progress only the newest."""
    lines: list[TimelineEvent] = []
    for event in events:
        if event.kind.value not in HISTORY:
            continue
        if lines and event.kind is EventKind.PROGRESS and lines[-1].kind == "progress":
            lines.pop()
        after = event.at - lines[-1].at if lines else None
        by = event.actor if is_operator else None
        text = _words(event, said, is_operator=is_operator)
        lines.append(TimelineEvent(event.at, event.kind.value, text, after, by))
    return lines


def _words(event: Event, said: Translator, *, is_operator: bool) -> str:
    data: dict[str, Any] = dict(event.data)
    code = event.kind.value
    if event.kind is EventKind.CLAIMED:
        code = ("claimed-lane" if data.get("lane") else "claimed") if is_operator else "began"
        data = {"fence": data.get("fence"), "worker": short_worker(str(data.get("worker")))}
    for name in ("seconds", "delay"):
        if name in data:
            data[name] = said.span(data[name] or 0.0)
    if "error" in data:
        data["error"] = said.text(FAILURES.get(data["error"], data["error"]))
    text = HISTORY[code]
    return said.text(text, **{name: value for name, value in data.items() if f"{{{name}}}" in text})


class Attempt(NamedTuple):
    """One try at a document. No end: it goes on."""

    number: int
    worker: str
    began: float
    ended: float | None = None
    outcome: str | None = None
    error: str | None = None


def attempts(events: Sequence[Event]) -> list[Attempt]:
    """Every try, oldest first."""
    found: list[Attempt] = []
    for event in events:
        if event.kind is EventKind.CLAIMED:
            worker = short_worker(str(event.data.get("worker", "")))
            found.append(Attempt(int(event.data.get("fence", 0)), worker, event.at))
        elif event.kind in _OUTCOMES and found and found[-1].ended is None:
            found[-1] = found[-1]._replace(
                ended=event.at, outcome=_OUTCOMES[event.kind], error=event.data.get("error")
            )
    return found
