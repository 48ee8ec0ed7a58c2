"""A search for the trace that strains the guarantees most, on any queue."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from guarantees import History, checks_of
from queue_model import DEFAULT_PIPELINE, PipelineSettings, QueueSettings
from trace_driver import Event, QueueUnderTest, run_trace

QueueFactory = Callable[[QueueSettings], QueueUnderTest]

CUSTOMERS = "abcdef"
LENGTHS = (0.2, 1.0, 1.0, 2.0, 5.0, 9.0)


@dataclass(frozen=True)
class Trace:
    """Settings, how the customers are set up, and what happens."""

    settings: QueueSettings
    workers: int
    setup: tuple[Event, ...]
    """Accounts, weights and caps, set before anything else."""
    events: tuple[Event, ...]


def check_trace(factory: QueueFactory, trace: Trace) -> dict[str, float]:
    """The ratio of each check."""
    events = sorted(trace.events, key=lambda event: event.at)
    queue = factory(trace.settings)
    run = run_trace(queue, trace.settings, trace.workers, [*trace.setup, *events])
    history = History(run)
    return {name: check(history) for name, check in checks_of(trace.settings.policy).items()}


class TraceMaker:
    """Random traces, and random changes of a trace. Small numbers reach every part of the rule."""

    def __init__(
        self, policy: str, seed: int, pipelines: Mapping[str, PipelineSettings] | None = None
    ) -> None:
        self.policy = policy
        self.random = random.Random(seed)
        self.pipelines = pipelines or {}

    def new(self) -> Trace:
        pick = self.random
        settings = QueueSettings(
            policy=self.policy,
            unit=1.0,
            allowance=pick.choice([2.0, 4.0, 8.0]),
            interval=pick.choice([3.0, 10.0, 40.0]),
            overdue_after=pick.choice([None, 2.0, 15.0]),
            share=pick.choice([0, 2, 3, 4, 4]),
            pipelines=self.pipelines,
        )
        customers = CUSTOMERS[: pick.randint(2, len(CUSTOMERS))]
        setup = tuple(event for name in customers for event in self.customer(name))
        is_right = pick.random() < 0.6
        events: list[Event] = []
        for _ in range(pick.randint(2, 12)):
            events += self.burst(customers, is_right=is_right)
        return Trace(settings, pick.randint(1, 3), setup, tuple(events))

    def customer(self, name: str) -> list[Event]:
        pick, events = self.random, []
        account = name
        if pick.random() < 0.25:
            account = pick.choice(["one", "two"])
            events.append(Event(0.0, "account", name, account=account))
        if pick.random() < 0.3:
            events.append(Event(0.0, "weight", account, weight=pick.choice([0.5, 2.0, 3.0])))
        if pick.random() < 0.15:
            events.append(Event(0.0, "cap", name, cap=pick.choice([1, 2])))
        return events

    def burst(self, customers: str, *, is_right: bool) -> list[Event]:
        """Some documents of one customer, and now and then something else."""
        pick = self.random
        at, name = self.time(), pick.choice(customers)
        if pick.random() < 0.15:
            until = at + pick.choice([1.0, 8.0, 30.0])
            return [Event(at, "pause", name), Event(until, "resume", name)]
        if pick.random() < 0.1:
            return [Event(at, pick.choice(["cancel", "kill"]), document=pick.randrange(12))]
        apart = pick.choice([0.0, 0.0, 0.3, 1.0, 4.0])
        seconds, urgent = pick.choice(LENGTHS), pick.random() < 0.15
        estimate = seconds if is_right else pick.choice(LENGTHS)
        event = Event(
            at,
            "submit",
            name,
            seconds=seconds,
            estimate=estimate,
            urgent=urgent,
            pipeline=pick.choice([DEFAULT_PIPELINE, *self.pipelines]),
            retries=(pick.choice([0.5, 5.0, 30.0]),) if pick.random() < 0.05 else (),
        )
        return [replace(event, at=at + apart * number) for number in range(pick.randint(1, 8))]

    def time(self) -> float:
        pick = self.random
        return pick.choice([0.0, float(pick.randint(0, 20)), pick.uniform(0, 90), self.late()])

    def late(self) -> float:
        """A time after which debts may have faded."""
        return self.random.choice([60.0, 200.0]) + self.random.randint(0, 10)

    def changed(self, trace: Trace) -> Trace:
        """The trace with a few random changes."""
        for _ in range(self.random.randint(1, 3)):
            change = self.random.choice(
                [
                    *(self.moved, self.moved, self.resized, self.resized),
                    *(self.settings_changed, self.removed, self.repeated, self.grown),
                ]
            )
            trace = change(trace)
        return trace

    def settings_changed(self, trace: Trace) -> Trace:
        other = self.new()
        if self.random.random() < 0.3:
            return replace(trace, workers=other.workers)
        name = self.random.choice(["allowance", "interval", "overdue_after", "share"])
        value = getattr(other.settings, name)
        return replace(trace, settings=replace(trace.settings, **{name: value}))

    def moved(self, trace: Trace) -> Trace:
        """One event, or all of one customer from one time on, at another time."""
        pick = self.random
        chosen = pick.choice(trace.events)
        at = pick.choice(
            [self.time(), chosen.at + pick.uniform(-2, 2), pick.choice(trace.events).at]
        )
        by = max(0.0, at) - chosen.at
        if pick.random() < 0.5:
            return self.with_event(trace, chosen, replace(chosen, at=chosen.at + by))
        return replace(
            trace,
            events=tuple(
                replace(event, at=max(0.0, event.at + by))
                if event.name == chosen.name and event.at >= chosen.at
                else event
                for event in trace.events
            ),
        )

    def resized(self, trace: Trace) -> Trace:
        """All documents of one customer longer or shorter, or one of them."""
        pick, seconds = self.random, self.random.choice(LENGTHS)
        chosen = pick.choice(trace.events)
        estimate = seconds if chosen.seconds == chosen.estimate else pick.choice(LENGTHS)
        if pick.random() < 0.5:
            resized = replace(chosen, seconds=seconds, estimate=estimate)
            return self.with_event(trace, chosen, resized)
        return replace(
            trace,
            events=tuple(
                replace(event, seconds=seconds, estimate=estimate)
                if event.name == chosen.name
                else event
                for event in trace.events
            ),
        )

    def removed(self, trace: Trace) -> Trace:
        if len(trace.events) < 4:
            return trace
        remaining = self.random.sample(trace.events, len(trace.events) - self.random.randint(1, 3))
        return replace(trace, events=tuple(event for event in trace.events if event in remaining))

    def repeated(self, trace: Trace) -> Trace:
        if len(trace.events) > 90:
            return trace
        copies = (self.random.choice(trace.events),) * self.random.randint(1, 6)
        return replace(trace, events=trace.events + copies)

    def grown(self, trace: Trace) -> Trace:
        if len(trace.events) > 90:
            return trace
        is_right = all(event.seconds == event.estimate for event in trace.events)
        names = sorted({event.name for event in trace.events if event.name}) or ["a"]
        return replace(
            trace, events=trace.events + tuple(self.burst("".join(names), is_right=is_right))
        )

    def with_event(self, trace: Trace, old: Event, new: Event) -> Trace:
        events = list(trace.events)
        events[events.index(old)] = new
        return replace(trace, events=tuple(events))


@dataclass
class Worst:
    ratio: float = -1.0
    trace: Trace | None = None
    violations: int = 0


def search(
    factory: QueueFactory, policy: str, *, steps: int, seed: int, stop_at_violation: bool = False
) -> dict[str, Worst]:
    """The worst trace found for each check.

    A third of the steps try new traces, the others change the worst one of a check in turn.
    """
    maker = TraceMaker(policy, seed)
    worst = {name: Worst() for name in checks_of(policy)}
    searched = [name for name in worst if name.startswith("G")]
    for step in range(steps):
        base = worst[searched[step % len(searched)]].trace
        is_new = base is None or maker.random.random() < 1 / 3
        trace = maker.new() if is_new or base is None else maker.changed(base)
        for name, strain in check_trace(factory, trace).items():
            worst[name].violations += strain > 1
            if strain > worst[name].ratio:
                worst[name].ratio, worst[name].trace = strain, trace
        if stop_at_violation and any(result.violations for result in worst.values()):
            break
    return worst
