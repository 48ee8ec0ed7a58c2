"""An installation in virtual time, whose waiting documents are forecast."""

from __future__ import annotations

import math
import random
from collections import Counter as Tally
from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from fairlead.model.customers import Counter
from fairlead.model.engines import EngineReport
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.fair import FairRule
from fairlead.policy.forecast import (
    LONGEST_WINDOW,
    Ahead,
    Flow,
    QueuedBefore,
    QuotaAhead,
    Range,
    RecentArrival,
    forecast,
)
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import Queue, QueueState, Start
from fairlead.policy.queue_entry import QueuedDocument
from fairlead.policy.queue_events import Ended, MemberChanged
from fairlead.policy.quotas import Quota
from fairlead.policy.resubmission import Submitted, Submitter, priorities_again
from fairlead.policy.schedule import Rate
from fairlead.policy.service import Hold
from fairlead.policy.serving import Serving, serving_of

LANE = OverdueLane()
_KEPT = 600
"""Claims that a store reads too."""


class Sent(NamedTuple):
    """A document that a customer submits: when, what it takes, and what is estimated."""

    at: float
    customer: int
    seconds: float
    estimate: float
    queue: str = DEFAULT_PIPELINE


class Pause(NamedTuple):
    """An operator pauses a customer, or resumes it."""

    at: float
    customer: int
    is_paused: bool


@dataclass(frozen=True)
class Site:
    """Workers, and what limits them: capacities and quotas by queue, caps by customer."""

    workers: int
    capacities: Mapping[str, int] = field(default_factory=dict)
    quotas: Mapping[str, tuple[float | None, int | None]] = field(default_factory=dict)
    caps: Mapping[int, int] = field(default_factory=dict)
    pauses: Sequence[Pause] = ()


class MadeForecast(NamedTuple):
    """A forecast for the document of this number, made at `now`."""

    document: int
    now: float
    forecast: Range


class Forecaster:
    """Runs documents through a queue, and forecasts the start of some that wait."""

    def __init__(
        self, policy: ClassicPolicy | FairRule, site: Site, chance: random.Random, often: float
    ) -> None:
        self.forecasts: list[MadeForecast] = []
        self.started: dict[int, float] = {}
        self.sent: list[Sent] = []
        self._policy, self._site = policy, site
        self._is_fair = isinstance(policy, FairRule)
        rule = policy if isinstance(policy, FairRule) else FairRule()
        quotas = {name: Quota(*limits) for name, limits in site.quotas.items()}
        state = QueueState(policy="fair" if self._is_fair else "classic", quotas=quotas)
        self._queue = Queue(rule, LANE, state)
        for customer in site.caps:
            self._change(customer, 0.0, is_paused=False)
        self._counters: dict[int, Counter] = {}
        self._random, self._often = chance, often
        self._running: dict[int, Start] = {}
        self._paused: set[int] = set()
        self._asked_until = math.inf
        self._ends: list[tuple[float, int]] = []
        self._waiting: dict[int, QueuedDocument] = {}
        self._arrived: deque[tuple[float, float, int]] = deque(maxlen=1000)
        self._ended: deque[tuple[int, float]] = deque(maxlen=_KEPT)

    def _change(self, customer: int, now: float, *, is_paused: bool) -> None:
        cap = self._site.caps.get(customer)
        self._queue.fold([MemberChanged(now, customer, None, is_paused, cap, 1.0, None)])

    def run(self, documents: Sequence[Sent], asked_until: float = math.inf) -> None:
        """Let all documents arrive, start and end in virtual time."""
        self._asked_until = asked_until
        queues = sorted({document.queue for document in documents})
        uses = EngineReport("engine", self._site.workers, tuple(queues))
        own = serving_of([uses], ())
        most = {name: self._site.capacities.get(name, self._site.workers) for name in queues}
        self._serving = Serving(own.servers, most)
        pauses = deque(self._site.pauses)
        for at, burst in groupby(documents, key=attrgetter("at")):
            while pauses and pauses[0].at <= at:
                self._pause(pauses.popleft())
            self._until(at)
            asked: set[int] = set()
            for document in burst:
                asked |= self._submit(document)
                self._start(at)
            # A burst is one submission: nobody asks in the middle of it.
            self._forecast(asked, at)
        for pause in pauses:
            self._pause(pause)
        self._until(math.inf)

    def _pause(self, pause: Pause) -> None:
        self._until(pause.at)
        (self._paused.add if pause.is_paused else self._paused.discard)(pause.customer)
        self._change(pause.customer, pause.at, is_paused=pause.is_paused)
        self._start(pause.at)
        if not pause.is_paused:
            own = [
                number for number, each in self._waiting.items() if each.customer == pause.customer
            ]
            self._forecast(set(own[:: max(1, len(own) // 10)]), pause.at)

    def _submit(self, sent: Sent) -> set[int]:
        """Submit it; return the documents whose starts are to be forecast, if any."""
        number, now = len(self.sent), sent.at
        self.sent.append(sent)
        priority, behind = self._check(sent.customer, now)
        slot = (0 if self._is_fair else priority, number)
        document = QueuedDocument(
            *(number, sent.customer, slot),
            priority=priority,
            estimate=sent.estimate,
            submitted_at=now,
            pipeline=sent.queue,
        )
        self._queue.push(document, now)
        self._waiting[number] = document
        self._arrived.appendleft((now, behind, number))
        if now < self._asked_until and self._random.random() < self._often:
            return {number, self._random.choice(list(self._waiting))}
        return set()

    def _check(self, customer: int, now: float) -> tuple[int, float]:
        """The priority, and how far behind the front the document is placed."""
        if isinstance(self._policy, FairRule):
            count = self._queue.count(customer, now)
            return self._policy.priority_of(count), -count * self._policy.unit
        check = self._policy.check(self._counters.get(customer), now=now)
        self._counters[customer] = check.counter
        return check.priority, float(check.priority)

    def _start(self, now: float) -> None:
        while len(self._running) < self._site.workers:
            held = Tally(start.document.pipeline for start in self._running.values())
            most = self._serving.queues
            chosen = self._queue.choose(1, now, [name for name in most if held[name] < most[name]])
            if not chosen:
                return
            number = chosen[0].document.number
            del self._waiting[number]
            self._running[number] = chosen[0]
            self.started[number] = now
            heappush(self._ends, (now + self.sent[number].seconds, number))

    def _until(self, until: float) -> None:
        while True:
            ends = self._ends[0][0] if self._ends else math.inf
            opens = self._queue.opens_at(self._now(), None) if self._waiting else math.inf
            now = min(ends, max(opens, self._now()))
            if now > until or now == math.inf:
                self._clock = max(self._now(), min(until, 1e18))
                return
            self._clock = now
            if ends <= now:
                self._end(*heappop(self._ends))
            self._start(now)

    _clock = 0.0

    def _now(self) -> float:
        return self._clock

    def _end(self, now: float, number: int) -> None:
        start, seconds = self._running.pop(number), self.sent[number].seconds
        charge = start.charge
        values = None if charge is None else (charge.seconds, charge.weight, charge.to_tag)
        pipeline = start.document.pipeline
        ended = Ended(now, start.customer, pipeline, seconds, start.payer, values)
        self._queue.fold([ended])
        self._ended.appendleft((number, now))

    def _forecast(self, numbers: set[int], now: float) -> None:
        """Forecast the starts of waiting documents, from their places in the queue."""
        numbers = {
            number
            for number in numbers
            if number in self._waiting and self._waiting[number].customer not in self._paused
        }
        if not numbers:
            return
        order = [start.document for start in self._order(numbers, now)]
        flow = self._flow(now)
        for number in sorted(numbers):
            place = [document.number for document in order].index(number)
            document, before = order[place], order[:place]
            own = [each.estimate for each in before if each.customer == document.customer]
            behind = float(document.priority)
            if self._is_fair:
                behind = self._queue.members[document.customer].share.debt + sum(own)
            latest = None if own else self._latest_start(document, now)
            question = Ahead(
                _queued(document), [*map(_queued, before)], behind, self._is_fair, latest=latest
            )
            result = forecast(question, flow)
            assert result is not None
            self.forecasts.append(MadeForecast(number, now, result))

    def _flow(self, now: float) -> Flow:
        running = [(number, None) for number in self._running]
        quotas = {}
        for name, quota in self._queue.state.quotas.items():
            rate = None if quota.rate is None else Rate(quota.rate, quota.tokens_left(now))
            quotas[name] = QuotaAhead(quota.max_running, rate)
        return Flow(
            self._serving,
            tuple(self._hold(number, end, now) for number, end in (*running, *self._ended)),
            self._arrivals(now),
            dict(self._site.caps),
            quotas,
        )

    def _arrivals(self, now: float) -> tuple[RecentArrival, ...]:
        recent = [each for each in self._arrived if each[0] >= now - LONGEST_WINDOW]
        sent = [self.sent[number] for _, _, number in recent]
        behind = [each[1] for each in recent]
        if isinstance(self._policy, ClassicPolicy):
            submitters = {
                customer: Submitter(self._policy, counter)
                for customer, counter in self._counters.items()
            }
            submitted = [
                Submitted(at, self.sent[n].customer, int(b)) for at, b, n in reversed(recent)
            ]
            behind = priorities_again(submitted, submitters, now)[::-1]
        return tuple(
            RecentArrival(now - each.at, own, each.estimate, each.customer, each.queue)
            for own, each in zip(behind, sent, strict=True)
        )

    def _hold(self, number: int, end: float | None, now: float) -> Hold:
        sent, began = self.sent[number], self.started[number]
        ended = None if end is None else end - now
        waited = began - sent.at
        return Hold(sent.queue, sent.estimate, began - now, ended, waited, sent.customer)

    def _latest_start(self, document: QueuedDocument, now: float) -> float:
        """When the overdue lane starts the oldest document of a customer, as `explain` has it."""
        last_start = self._queue.members[document.customer].last_started_at
        waited = now - max(document.submitted_at, last_start or -math.inf)
        return max(0.0, LANE.after - waited) + LANE.share * document.estimate

    def _order(self, numbers: set[int], now: float) -> list[Start]:
        """The documents in the order in which they would start now, until these are among them.

        Caps and quotas only delay documents: the forecast knows them.
        """
        queue, starts, missing = deepcopy(self._queue), list[Start](), set(numbers)
        for name in queue.state.quotas:
            queue.state.quotas[name] = Quota()
        for member in [each for each in queue.members.values() if each.cap is not None]:
            paused = member.is_paused
            queue.fold([MemberChanged(now, member.id, None, paused, None, 1.0, None)])
        while missing:
            starts += queue.choose(1, now)
            missing.discard(starts[-1].document.number)
        return starts


def _queued(document: QueuedDocument) -> QueuedBefore:
    return QueuedBefore(document.customer, document.pipeline, document.estimate)
