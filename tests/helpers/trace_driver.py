"""Runs a trace in virtual time, on the queue model or on a queue with its interface."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from queue_model import DEFAULT_PIPELINE, Place, QueueSettings, Start


class QueueUnderTest(Protocol):
    """The interface of the model, which an adapter gives to another queue."""

    def submit(
        self,
        customer: str,
        *,
        now: float,
        estimate: float = 6.0,
        urgent: bool = False,
        pipeline: str = DEFAULT_PIPELINE,
    ) -> tuple[int, int, int]: ...
    def claim(self, now: float, pipelines: Collection[str] | None = None) -> Start | None: ...
    def finish(self, document: int, now: float, actual: float) -> None: ...
    def lose(self, document: int, now: float) -> None: ...
    def fail_attempt(
        self, document: int, now: float, actual: float, retry_at: float | None
    ) -> None: ...
    def cancel(self, document: int, now: float, actual_if_running: float = 0.0) -> bool: ...
    def due(self, now: float) -> list[int]: ...
    def pause(self, customer: str, now: float) -> None: ...
    def resume(self, customer: str, now: float) -> None: ...
    def set_cap(self, customer: str, cap: int | None, now: float) -> None: ...
    def set_weight(self, account: str, weight: float, now: float) -> None: ...
    def set_account(self, customer: str, account: str | None, now: float) -> None: ...
    def reset(self, customer: str, now: float) -> None: ...
    def switch(self, policy: str, now: float) -> None: ...
    def debt(self, account: str, now: float, customer: str | None = None) -> float: ...
    def place(self, account: str, customer: str | None = None) -> Place | None: ...
    def next_opening(self, now: float) -> float | None: ...


@dataclass(frozen=True)
class Event:
    """One line of a trace: an action at a time."""

    at: float
    kind: str
    """submit, cancel, kill, pause, resume, cap, weight, account, reset or switch."""
    name: str = ""
    """The customer; for `weight` the account, for `switch` the policy."""
    document: int = 0
    """For `cancel` and `kill`, which kills the worker: the number of the document."""
    seconds: float = 6.0
    estimate: float = 6.0
    urgent: bool = False
    pipeline: str = DEFAULT_PIPELINE
    cap: int | None = None
    weight: float = 1.0
    account: str | None = None
    retries: tuple[float, ...] = ()
    """The first attempts fail, and wait as long as this for the next one."""


@dataclass(frozen=True)
class Submission:
    at: float
    event: Event
    document: int
    count: int
    priority: int
    debt_after: float


@dataclass(frozen=True)
class Entry:
    """What happened, in the order in which it happened.

    `kind` is that of an event, or: start, end, failed, lost, retried; claims (idle workers claim
    now), claimed (nothing more to claim). `places` is given on start, claims and claimed.
    """

    at: float
    kind: str
    name: str = ""
    document: int = -1
    actual: float = 0.0
    idle: int = 0
    event: Event | None = None
    start: Start | None = None
    places: Mapping[str, Place] = field(default_factory=dict)


@dataclass
class Run:
    """A finished run."""

    workers: int
    settings: QueueSettings
    submissions: list[Submission] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)

    @property
    def starts(self) -> list[Entry]:
        return [entry for entry in self.log if entry.kind == "start"]

    def first_start(self, document: int) -> Entry | None:
        return next((entry for entry in self.starts if entry.document == document), None)


class TraceDriver:
    """Runs a trace on a queue.

    At one instant: first all ends (in order of time, then of submission), then retries whose time
    has come, then the events in their order, then idle workers claim one after another.
    """

    def __init__(
        self, queue: QueueUnderTest, settings: QueueSettings, workers: int, events: Iterable[Event]
    ) -> None:
        self.queue = queue
        self.events = list(events)
        self.run = Run(workers, settings)
        self.ends: dict[int, float] = {}
        self.started: dict[int, float] = {}
        self.retries: list[float] = []
        self.attempts: dict[int, int] = {}
        self.accounts: dict[str, str | None] = {}

    def run_all(self) -> Run:
        now = -math.inf
        while (instant := self.next_instant(now)) is not None:
            now = instant
            for end, document in sorted((end, one) for one, end in self.ends.items()):
                if end <= now:
                    self.end(document, now)
            if self.retries and min(self.retries) <= now:
                self.retry(now)
            while self.events and self.events[0].at <= now:
                self.take(self.events.pop(0), now)
            self.claim(now)
        return self.run

    def next_instant(self, now: float) -> float | None:
        times = [*self.ends.values(), *self.retries]
        if self.events:
            times.append(self.events[0].at)
        if now > -math.inf and self.idle and (opening := self.queue.next_opening(now)) is not None:
            times.append(opening)
        return max(now, min(times)) if times else None

    @property
    def idle(self) -> int:
        return self.run.workers - len(self.ends)

    def places(self) -> dict[str, Place]:
        accounts = {account or name for name, account in self.accounts.items()}
        places = {account: self.queue.place(account) for account in accounts}
        return {account: place for account, place in places.items() if place is not None}

    def note(self, at: float, kind: str, **more: object) -> None:
        self.run.log.append(Entry(at, kind, **more))  # type: ignore[arg-type]

    def event_of(self, document: int) -> Event:
        return self.run.submissions[document].event

    def end(self, document: int, now: float) -> None:
        event = self.event_of(document)
        del self.ends[document]
        attempt = self.attempts[document]
        kind = "end"
        if attempt <= len(event.retries):
            kind = "failed"
            self.retries.append(now + event.retries[attempt - 1])
            self.queue.fail_attempt(document, now, event.seconds, self.retries[-1])
        else:
            self.queue.finish(document, now, event.seconds)
        self.note(now, kind, name=event.name, document=document, actual=event.seconds)

    def retry(self, now: float) -> None:
        self.retries = [at for at in self.retries if at > now]
        for document in self.queue.due(now):
            self.note(now, "retried", name=self.event_of(document).name, document=document)

    def take(self, event: Event, now: float) -> None:
        getattr(self, f"take_{event.kind}")(event, now)

    def take_submit(self, event: Event, now: float) -> None:
        self.accounts.setdefault(event.name, None)
        document, count, priority = self.queue.submit(
            event.name,
            now=now,
            estimate=event.estimate,
            urgent=event.urgent,
            pipeline=event.pipeline,
        )
        assert document == len(self.run.submissions)
        debt = self.queue.debt(self.accounts[event.name] or event.name, now)
        self.run.submissions.append(Submission(now, event, document, count, priority, debt))
        self.note(now, "submit", name=event.name, document=document, event=event)

    def take_cancel(self, event: Event, now: float) -> None:
        if event.document >= len(self.run.submissions):
            return
        used = 0.0
        if self.ends.pop(event.document, None) is not None:
            used = now - self.started[event.document]
        if self.queue.cancel(event.document, now, used):
            name = self.event_of(event.document).name
            self.note(now, "cancel", name=name, document=event.document, actual=used)

    def take_kill(self, event: Event, now: float) -> None:
        if self.ends.pop(event.document, None) is not None:
            self.attempts[event.document] -= 1
            self.queue.lose(event.document, now)
            name = self.event_of(event.document).name
            self.note(now, "lost", name=name, document=event.document)

    def take_pause(self, event: Event, now: float) -> None:
        self.queue.pause(event.name, now)
        self.note(now, "pause", name=event.name)

    def take_resume(self, event: Event, now: float) -> None:
        self.queue.resume(event.name, now)
        self.note(now, "resume", name=event.name)

    def take_cap(self, event: Event, now: float) -> None:
        self.queue.set_cap(event.name, event.cap, now)
        self.note(now, "cap", name=event.name, event=event)

    def take_weight(self, event: Event, now: float) -> None:
        self.queue.set_weight(event.name, event.weight, now)
        self.note(now, "weight", name=event.name, event=event)

    def take_account(self, event: Event, now: float) -> None:
        self.accounts[event.name] = event.account
        self.queue.set_account(event.name, event.account, now)
        self.note(now, "account", name=event.name, event=event)

    def take_reset(self, event: Event, now: float) -> None:
        self.queue.reset(event.name, now)
        self.note(now, "reset", name=event.name)

    def take_switch(self, event: Event, now: float) -> None:
        self.queue.switch(event.name, now)
        self.note(now, "switch", name=event.name)

    def claim(self, now: float) -> None:
        self.note(now, "claims", idle=self.idle, places=self.places())
        while self.idle and (start := self.queue.claim(now)) is not None:
            document, name = start.document, start.customer
            self.attempts[document] = self.attempts.get(document, 0) + 1
            self.started[document] = now
            self.ends[document] = now + self.event_of(document).seconds
            places = self.places()
            self.note(now, "start", name=name, document=document, start=start, places=places)
        self.note(now, "claimed", idle=self.idle, places=self.places())


def run_trace(
    queue: QueueUnderTest, settings: QueueSettings, workers: int, events: Iterable[Event]
) -> Run:
    return TraceDriver(queue, settings, workers, events).run_all()


def vector_trace(rows: list[dict[str, str]]) -> tuple[QueueSettings, int, list[Event]]:
    """The settings, the workers and the events of one case of `fair2.csv`."""
    first = rows[0]
    settings = QueueSettings(
        unit=float(first["unit"]),
        allowance=float(first["allowance"]),
        interval=float(first["interval"]),
        share=int(first["share"]),
    )
    events = []
    for row in rows:
        at, kind, name = float(row["at"]), row["what"], row["account"]
        if kind == "cancel":
            events.append(Event(at, kind, document=int(name)))
            continue
        if kind == "submit":
            cap = int(row["cap"]) if row["cap"] else None
            events.append(Event(at, "weight", name, weight=float(row["weight"])))
            events.append(Event(at, "cap", name, cap=cap))
            seconds, estimate = float(row["seconds"]), float(row["estimate"])
            urgent = row["urgent"] == "1"
            events.append(Event(at, kind, name, seconds=seconds, estimate=estimate, urgent=urgent))
            continue
        events.append(Event(at, kind, name))
    return settings, int(first["workers"]), events
