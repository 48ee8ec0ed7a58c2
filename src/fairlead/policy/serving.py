"""Which engines process the documents of a queue, and how many of them at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fairlead.model.engines import EngineReport
from fairlead.model.pipelines import Pipeline


class SharedPlaces(NamedTuple):
    """Places in which documents of these queues are processed."""

    places: int
    queues: frozenset[str]


@dataclass(frozen=True, slots=True)
class Serving:
    """The servers, and of some queues how many documents their steps let in at once."""

    servers: tuple[SharedPlaces, ...] = ()
    queues: Mapping[str, int] = field(default_factory=dict)

    @property
    def served(self) -> frozenset[str]:
        return frozenset().union(*(server.queues for server in self.servers))

    def sharing(self, queue: str) -> frozenset[str]:
        """The queues that compete with this one for places, itself included."""
        serving = (server.queues for server in self.servers if queue in server.queues)
        return frozenset([queue]).union(*serving)

    def places(self, queues: Collection[str]) -> int:
        """The places that serve any of these queues."""
        return sum(server.places for server in self.servers if not server.queues.isdisjoint(queues))


def serving_of(reports: Iterable[EngineReport], pipelines: Sequence[Pipeline]) -> Serving:
    """What engines report; a queue with a step that cannot run is not served there.

    A queue of several steps lets in as many documents as the narrowest of its steps, which may be
    more than there are workers: a step with a concurrency shares them. Where an engine reports no
    steps, its workers count.
    """
    steps = {queue.name: queue.steps for pipeline in pipelines for queue in pipeline.queues}
    places: dict[frozenset[str], int] = {}
    queues: dict[str, int] = {}
    for report in reports:
        if report.workers < 1:
            continue
        narrowest = {queue: _narrowest(report, steps.get(queue, ())) for queue in report.queues}
        served = frozenset(queue for queue, room in narrowest.items() if room > 0)
        if served:
            most = max(report.workers, *(narrowest[queue] for queue in served))
            places[served] = places.get(served, 0) + most
        for queue in served:
            queues[queue] = queues.get(queue, 0) + narrowest[queue]
    servers = tuple(SharedPlaces(number, names) for names, number in places.items())
    return Serving(servers, queues)


def _narrowest(report: EngineReport, steps: Sequence[str]) -> int:
    """How many documents of these steps the engine processes at once."""
    capacities = [use.capacity for use in report.steps if use.step in steps]
    return min(capacities, default=report.workers)
