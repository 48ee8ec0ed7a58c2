"""The demo's play: who sends what and when, and what each customer waited in the end.

One customer drops hundreds of documents at once. Small ones send a few while that pile is being
worked off; their moments are given by how much of the pile is done, not by the clock, so that
the play is the same on a fast machine and a slow one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fairlead.app import Fairlead
from fairlead.demo.samples import Sample, samples
from fairlead.model.documents import Document, Event, EventKind
from fairlead.model.states import State
from fairlead.policy.classic import FifoPolicy
from fairlead.simulation.simulate import simulate
from fairlead.simulation.summary import Summary, Waits, summarise, waits_of
from fairlead.simulation.trace import Arrival

LARGE = "Harbour Logistics"
SMALL = (
    "Bakery Nowak",
    "Clínica Sol",
    "Elm School",
    "Fjord Optics",
    "Kanzlei Weber",
    "Oficina Lima",
)
SMALL_DOCUMENTS = (3, 5, 3, 4, 6, 3)


class Scene(NamedTuple):
    """A customer's documents, and how many of the large one's must be done before they come."""

    customer: str
    samples: list[Sample]
    after: int


class Standing(NamedTuple):
    """How one customer is doing."""

    customer: str
    documents: int
    waiting: int
    processing: int
    done: int
    priority: int | None
    mean_wait: float
    longest_wait: float


class WaitReport(NamedTuple):
    """How long a customer waited, compared with first come, first served."""

    customer: str
    documents: int
    priorities: tuple[int, int]
    waited: Waits
    fifo: Waits


def make_scenes(documents: int, on_made: Callable[[], None]) -> list[Scene]:
    """Make all documents; `on_made` is called after each."""
    large = list(_made(samples(documents, seed=1, pages=(60, 160)), on_made))
    scenes = [Scene(LARGE, large, 0)]
    for number, (customer, count) in enumerate(zip(SMALL, SMALL_DOCUMENTS, strict=True)):
        few = list(_made(samples(count, seed=2 + number, pages=(1, 6)), on_made))
        scenes.append(Scene(customer, few, (number + 1) * documents // (len(SMALL) + 2)))
    return scenes


def _made(made: Iterator[Sample], on_made: Callable[[], None]) -> Iterator[Sample]:
    for sample in made:
        on_made()
        yield sample


class Scenario:
    """Submits each scene when its moment has come, and follows the record of events."""

    def __init__(self, fairlead: Fairlead, scenes: list[Scene]) -> None:
        self._fairlead = fairlead
        self._to_come = list(scenes)
        self._tallies: dict[str, _Tally] = {}
        self._seen = 0
        self.documents_in_all = sum(len(scene.samples) for scene in scenes)
        self._submit_next()

    def advance(self) -> None:
        """Take note of what happened, and submit what is due."""
        for event in self._fairlead.store.events(self._seen):
            self._seen = event.seq
            if event.customer is not None and event.document is not None:
                self._tallies[event.customer].note(event)
        while self._to_come and self._tallies[LARGE].done >= self._to_come[0].after:
            self._submit_next()

    def standings(self) -> list[Standing]:
        """How each customer is doing that has sent something."""
        now = self._fairlead.store.now()
        return [tally.standing(name, now) for name, tally in self._tallies.items()]

    def verdicts(self) -> list[WaitReport]:
        """How long each customer waited, compared with first come, first served."""
        documents = self._documents()
        next_claim = _next_claims(self._fairlead.store.events(limit=10 * self.documents_in_all))
        arrivals = [_arrival(each, next_claim.get(each.id)) for each in documents]
        runs = simulate(arrivals, FifoPolicy(), self._fairlead.settings.workers, None)
        fifo = summarise(arrivals, runs)
        return [
            _verdict(name, [each for each in documents if each.customer == name], fifo)
            for name in self._tallies
        ]

    def failed(self) -> list[Document]:
        """Documents that came to another end than done."""
        return [each for each in self._documents() if each.state is not State.DONE]

    def _submit_next(self) -> None:
        scene = self._to_come.pop(0)
        sources = [(sample.content, sample.name) for sample in scene.samples]
        accepted = self._fairlead.submit_many(scene.customer, sources)
        self._tallies[scene.customer] = _Tally(accepted)

    def _documents(self) -> list[Document]:
        """All that were submitted, in order of arrival; what was attached to them is not shown."""
        newest_first = [each for each in self._fairlead.documents() if each.parent is None]
        return newest_first[::-1]


class _Tally:
    """One customer's documents, followed by events."""

    def __init__(self, accepted: list[Document]) -> None:
        self._accepted = accepted
        self._waiting = {each.id: each for each in accepted}
        self._not_done = set(self._waiting)
        self._waits: dict[str, float] = {}

    @property
    def done(self) -> int:
        """How many are at their end; parts of them do not count."""
        return len(self._accepted) - len(self._not_done)

    def note(self, event: Event) -> None:
        """Follow one event."""
        document = event.document or ""
        if event.kind is EventKind.CLAIMED and document in self._waiting:
            self._waits[document] = event.at - self._waiting.pop(document).submitted_at
        if event.kind in (EventKind.DONE, EventKind.FAILED):
            self._not_done.discard(document)

    def standing(self, customer: str, now: float) -> Standing:
        """How the customer is doing."""
        waiting = self._waiting.values()
        waits = waits_of([*self._waits.values(), *(now - each.submitted_at for each in waiting)])
        return Standing(
            customer=customer,
            documents=len(self._accepted),
            waiting=len(waiting),
            processing=len(self._waits) - self.done,
            done=self.done,
            priority=min((each.priority for each in waiting), default=None),
            mean_wait=waits.mean,
            longest_wait=waits.max,
        )


def _verdict(customer: str, own: list[Document], fifo: Summary) -> WaitReport:
    levels = [each.priority for each in own]
    waited = waits_of(_started(each) - each.submitted_at for each in own)
    return WaitReport(
        customer, len(own), (min(levels), max(levels)), waited, fifo.customers[customer]
    )


def _next_claims(events: list[Event]) -> dict[str, float]:
    """For each document, when its worker took the next one."""
    found: dict[str, float] = {}
    at_hand: dict[str, str] = {}
    for event in events:
        if event.kind is EventKind.CLAIMED and event.document is not None:
            worker = event.data["worker"]
            if worker in at_hand:
                found[at_hand[worker]] = event.at
            at_hand[worker] = event.document
    return found


def _arrival(document: Document, next_claim: float | None) -> Arrival:
    """The document as a row of a trace: when it came, and how long it kept its worker.

    That is until the worker took the next one, so that what lies between two documents counts
    for both rules alike; where the worker then idled, until the document was done.
    """
    started = _started(document)
    done = document.finished_at or started
    free = done if next_claim is None else min(done, next_claim)
    return Arrival(document.submitted_at, document.customer, free - started)


def _started(document: Document) -> float:
    return document.started_at or document.submitted_at
