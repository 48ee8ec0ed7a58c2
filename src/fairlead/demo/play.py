"""The demo's play: who sends what and when, and what each customer waited in the end.

One customer drops hundreds of documents at once. Small ones send a few while that pile is being
worked off; their moments are given by how much of the pile is done, not by the clock, so that
the play is the same on a fast machine and a slow one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fairlead.app import Fairlead
from fairlead.core.classic import FifoPolicy
from fairlead.core.documents import Document
from fairlead.core.states import State
from fairlead.demo.samples import Sample, samples
from fairlead.sim.simulate import simulate
from fairlead.sim.summary import Waits, summarise, waits_of
from fairlead.sim.trace import Arrival

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


class Verdict(NamedTuple):
    """What a customer waited, and what first come, first served would have cost it."""

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


class Play:
    """Submits each scene when its moment has come, and watches."""

    def __init__(self, fairlead: Fairlead, scenes: list[Scene]) -> None:
        self._fairlead = fairlead
        self._scenes = scenes
        self._to_come = list(scenes)
        self.documents_in_all = sum(len(scene.samples) for scene in scenes)
        self._submit_next()

    def advance(self) -> None:
        """Submit what is due."""
        while self._to_come and self._done_of_large() >= self._to_come[0].after:
            self._submit_next()

    def standings(self) -> list[Standing]:
        """How each customer is doing that has sent something."""
        now = self._fairlead.now()
        return [_standing(name, own, now) for name, own in self._by_customer().items() if own]

    def verdicts(self) -> list[Verdict]:
        """What each customer waited, beside first come, first served with the same times."""
        arrivals = [_arrival(each) for each in self._documents()]
        runs = simulate(arrivals, FifoPolicy(), self._fairlead.settings.workers, None)
        fifo = summarise(arrivals, runs)
        return [
            _verdict(name, own, fifo.customers[name]) for name, own in self._by_customer().items()
        ]

    def failed(self) -> list[Document]:
        """Documents that came to another end than done."""
        return [each for each in self._documents() if each.state is not State.DONE]

    def _submit_next(self) -> None:
        scene = self._to_come.pop(0)
        sources = [(sample.content, sample.name) for sample in scene.samples]
        self._fairlead.submit_many(scene.customer, sources)

    def _done_of_large(self) -> int:
        return len(self._scenes[0].samples) - self._fairlead.customer(LARGE).pending

    def _documents(self) -> list[Document]:
        """All so far, in order of arrival."""
        return self._fairlead.documents(limit=self.documents_in_all)[::-1]

    def _by_customer(self) -> dict[str, list[Document]]:
        found: dict[str, list[Document]] = {scene.customer: [] for scene in self._scenes}
        for document in self._documents():
            found[document.customer].append(document)
        return found


def _standing(customer: str, own: list[Document], now: float) -> Standing:
    waiting = [each for each in own if each.state is State.WAITING]
    waits = waits_of((each.started_at or now) - each.submitted_at for each in own)
    return Standing(
        customer=customer,
        documents=len(own),
        waiting=len(waiting),
        processing=sum(each.state is State.PROCESSING for each in own),
        done=sum(not each.state.is_pending for each in own),
        priority=min((each.priority for each in waiting), default=None),
        mean_wait=waits.mean,
        longest_wait=waits.max,
    )


def _verdict(customer: str, own: list[Document], fifo: Waits) -> Verdict:
    levels = [each.priority for each in own]
    waited = waits_of(_started(each) - each.submitted_at for each in own)
    return Verdict(customer, len(own), (min(levels), max(levels)), waited, fifo)


def _arrival(document: Document) -> Arrival:
    """The document as a row of a trace: when it came, and how long its work took."""
    return Arrival(document.submitted_at, document.customer, document.seconds or 0.0)


def _started(document: Document) -> float:
    return document.started_at or document.submitted_at
