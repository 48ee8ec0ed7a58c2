"""When the last of several documents starts, if each takes a given time: a run in virtual time.

A document needs a place of a server that serves its queue, a token if its queue has a rate, and
room: in its queue, whose steps or quota may let in few documents, and of its customer, if that has
a cap. Those that may not start let later ones pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

from fairlead.policy.serving import SharedPlaces

GOES_FIRST = -1
"""The order of documents that arrive later and go first."""
_Kind = tuple[str, int | None]


class ScheduledStart(NamedTuple):
    """A document, or several of a kind: its order, and for how long it holds what it needs."""

    order: int
    queue: str
    customer: int
    seconds: float
    documents: float = 1.0


class Room(NamedTuple):
    """How many documents are let in at once, each for `factor` times its seconds."""

    documents: int
    factor: float = 1.0


class Rate(NamedTuple):
    """Starts a second, and the starts possible now."""

    rate: float
    tokens: float


@dataclass(frozen=True, slots=True)
class ScheduleLimits:
    """What limits the starts: places of servers, and limits of queues and of customers.

    `factors` are those of the servers' places. A document needs all `rooms` of its queue.
    """

    servers: Sequence[SharedPlaces]
    factors: Sequence[float]
    rooms: Mapping[str, Sequence[Room]] = field(default_factory=dict)
    caps: Mapping[int, int] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)


class Schedule:
    """One run."""

    def __init__(self, limits: ScheduleLimits, running: Iterable[ScheduledStart]) -> None:
        """Begin with documents that run; those that end last need not have a place."""
        self._limits = limits
        self._now = 0.0
        self._free = [server.places for server in limits.servers]
        self._rooms = {
            queue: [room.documents for room in rooms] for queue, rooms in limits.rooms.items()
        }
        self._caps = dict(limits.caps)
        self._tokens: dict[str, tuple[float, float]] = {}
        self._waiting: dict[_Kind, deque[ScheduledStart]] = {}
        self._ends: list[tuple[float, int, Any, Any]] = []
        self._number = count()
        for task in sorted(running, key=lambda task: task.seconds):
            self._take(task, self._server_for(task.queue))
        # Those that run have used their tokens before.
        self._tokens = {queue: (limit.tokens, 0.0) for queue, limit in limits.rates.items()}

    def start_of_last(
        self, tasks: Sequence[ScheduledStart], arrivals: Iterator[tuple[float, ScheduledStart]]
    ) -> float:
        """When the last task starts, if others arrive at these times and go first."""
        for task in tasks:
            self._queue(task).append(task)
        last = tasks[-1].order
        arrival = next(arrivals, None)
        while not self._start_until(last):
            coming = inf if arrival is None else arrival[0]
            ending = self._ends[0][0] if self._ends else inf
            self._now = min(coming, ending, self._next_token())
            if self._now == inf:
                break
            while self._ends and self._ends[0][0] <= self._now:
                *_, left, key = heappop(self._ends)
                left[key] += 1
            if arrival is not None and coming <= self._now:
                self._queue(arrival[1]).appendleft(arrival[1])
                arrival = next(arrivals, None)
        return self._now

    def _queue(self, task: ScheduledStart) -> deque[ScheduledStart]:
        """The tasks of a kind: what keeps one of them from starting keeps all."""
        kind = (task.queue, task.customer if task.customer in self._caps else None)
        return self._waiting.setdefault(kind, deque())

    def _start_until(self, last: int) -> bool:
        """Start what can start now; return whether that is the last task's turn."""
        while True:
            heads = [
                (tasks[0].order, kind)
                for kind, tasks in self._waiting.items()
                if tasks and self._may_start(kind)
            ]
            if not heads:
                return False
            order, kind = min(heads, key=itemgetter(0))
            if order == last:
                return True
            self._take(self._waiting[kind].popleft(), self._server_for(kind[0]))

    def _may_start(self, kind: _Kind) -> bool:
        queue, customer = kind
        has_room = customer is None or self._caps[customer] > 0
        has_room = has_room and min(self._rooms.get(queue, (1,))) > 0
        return (
            has_room and self._opens_at(queue) <= self._now and self._server_for(queue) is not None
        )

    def _server_for(self, queue: str) -> int | None:
        """A server with a free place for this queue, the one that serves the fewest queues."""
        best, fewest = None, inf
        for number, server in enumerate(self._limits.servers):
            if self._free[number] > 0 and queue in server.queues and len(server.queues) < fewest:
                best, fewest = number, len(server.queues)
        return best

    def _take(self, task: ScheduledStart, server: int | None) -> None:
        limits = self._limits
        if server is not None:
            self._hold(self._free, server, task.seconds * limits.factors[server])
        for number, room in enumerate(limits.rooms.get(task.queue, ())):
            self._hold(self._rooms[task.queue], number, task.seconds * room.factor)
        if task.customer in self._caps:
            self._hold(self._caps, task.customer, task.seconds)
        if task.queue in self._tokens:
            tokens, since = self._tokens[task.queue]
            rate = limits.rates[task.queue].rate
            filled = min(max(1.0, rate), tokens + rate * (self._now - since))
            self._tokens[task.queue] = (filled - task.documents, self._now)

    def _hold(self, left: Any, key: Any, seconds: float) -> None:
        """Take one of what is left, for so many seconds."""
        left[key] -= 1
        heappush(self._ends, (self._now + seconds, next(self._number), left, key))

    def _opens_at(self, queue: str) -> float:
        """When the rate of a queue lets its next document start."""
        if queue not in self._tokens:
            return 0.0
        tokens, since = self._tokens[queue]
        return since + (1.0 - tokens) / self._limits.rates[queue].rate

    def _next_token(self) -> float:
        if not self._tokens:
            return inf
        waiting = {queue for (queue, _), tasks in self._waiting.items() if tasks}
        times = (self._opens_at(queue) for queue in waiting & self._tokens.keys())
        return min((at for at in times if at > self._now), default=inf)
