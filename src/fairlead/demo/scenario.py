"""The demo's scenario: the submissions of all customers, and their waits.

One customer submits hundreds of documents at once. Small customers submit a few each while these
are processed. They start after a part of the large customer's documents, not after a time, so that
the scenario is the same on fast and slow machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairlead.app import Fairlead
from fairlead.demo.samples import SampleDocument, samples
from fairlead.model.documents import Document, Event, EventKind
from fairlead.model.states import State
from fairlead.simulation.summary import WaitStatistics, waits_of

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


class PlannedSubmission(NamedTuple):
    """A customer's documents, submitted when `after` documents of the large customer are done."""

    customer: str
    samples: list[SampleDocument]
    after: int


class CustomerProgress(NamedTuple):
    """The state of one customer's documents."""

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
    waited: WaitStatistics
    fifo: WaitStatistics


def plan_submissions(documents: int, on_made: Callable[[], None]) -> list[PlannedSubmission]:
    """Make all documents; `on_made` is called after each."""

    def make(count: int, seed: int, pages: tuple[int, int]) -> list[SampleDocument]:
        documents = []
        for sample in samples(count, seed=seed, pages=pages):
            documents.append(sample)
            on_made()
        return documents

    planned = [PlannedSubmission(LARGE, make(documents, 1, (60, 160)), 0)]
    for number, (customer, count) in enumerate(zip(SMALL, SMALL_DOCUMENTS, strict=True)):
        after = (number + 1) * documents // (len(SMALL) + 2)
        planned.append(PlannedSubmission(customer, make(count, 2 + number, (1, 6)), after))
    return planned


class Scenario:
    """Makes each submission when it is due, and counts by events."""

    def __init__(self, fairlead: Fairlead, planned: list[PlannedSubmission]) -> None:
        self._fairlead = fairlead
        self._planned = list(planned)
        self._customers: dict[str, _CustomerDocuments] = {}
        self._last_event = 0
        self.total_documents = sum(len(submission.samples) for submission in planned)
        self._submit_next()

    def advance(self) -> None:
        """Read new events, and submit what is due."""
        for event in self._fairlead.store.events(self._last_event):
            self._last_event = event.seq
            if event.customer is not None and event.document is not None:
                self._customers[event.customer].follow(event)
        while self._planned and self._customers[LARGE].done >= self._planned[0].after:
            self._submit_next()

    def progress(self) -> list[CustomerProgress]:
        now = self._fairlead.store.now()
        return [documents.progress(name, now) for name, documents in self._customers.items()]

    def wait_reports(self) -> list[WaitReport]:
        documents = self._documents()
        fifo = first_come_first_served(documents)
        reports = []
        for name in self._customers:
            own = [document for document in documents if document.customer == name]
            levels = [document.priority for document in own]
            reports.append(
                WaitReport(
                    customer=name,
                    documents=len(own),
                    priorities=(min(levels), max(levels)),
                    waited=waits_of(_started(document) - document.submitted_at for document in own),
                    fifo=waits_of(fifo[document.id] for document in own),
                )
            )
        return reports

    def failed(self) -> list[Document]:
        return [document for document in self._documents() if document.state is not State.DONE]

    def _submit_next(self) -> None:
        submission = self._planned.pop(0)
        sources = [(sample.content, sample.name) for sample in submission.samples]
        accepted = self._fairlead.submit_many(submission.customer, sources)
        self._customers[submission.customer] = _CustomerDocuments(accepted)

    def _documents(self) -> list[Document]:
        """All submitted documents in order of arrival, without attachments."""
        newest_first = self._fairlead.documents(limit=1000)
        return [document for document in newest_first if document.parent is None][::-1]


class _CustomerDocuments:
    """One customer's documents, followed by events; attachments do not count."""

    def __init__(self, accepted: list[Document]) -> None:
        self._accepted = accepted
        self._waiting = {document.id: document for document in accepted}
        self._not_done = set(self._waiting)
        self._waits: dict[str, float] = {}

    @property
    def done(self) -> int:
        return len(self._accepted) - len(self._not_done)

    def follow(self, event: Event) -> None:
        document = event.document or ""
        if event.kind is EventKind.CLAIMED and document in self._waiting:
            self._waits[document] = event.at - self._waiting.pop(document).submitted_at
        if event.kind in (EventKind.DONE, EventKind.FAILED):
            self._not_done.discard(document)

    def progress(self, customer: str, now: float) -> CustomerProgress:
        waiting = self._waiting.values()
        unfinished = (now - document.submitted_at for document in waiting)
        waits = waits_of([*self._waits.values(), *unfinished])
        return CustomerProgress(
            customer=customer,
            documents=len(self._accepted),
            waiting=len(waiting),
            processing=len(self._waits) - self.done,
            done=self.done,
            priority=min((document.priority for document in waiting), default=None),
            mean_wait=waits.mean,
            longest_wait=waits.max,
        )


def first_come_first_served(documents: Sequence[Document]) -> dict[str, float]:
    """How long each document would have waited if the same starts went by arrival.

    The starts are those of the run, so both columns include the time to start workers, read
    attachments and save results. At least as many documents had arrived by each start, so none
    starts before it arrives.
    """
    starts = sorted(map(_started, documents))
    by_arrival = sorted(documents, key=lambda document: document.submitted_at)
    return {
        document.id: start - document.submitted_at
        for document, start in zip(by_arrival, starts, strict=True)
    }


def _started(document: Document) -> float:
    return document.started_at or document.submitted_at
