"""Group commit of results, in a thread of its own.

A worker reads its next document while the result of the last one is being saved. Results gather for
a moment and share one fsync of the folder and one commit. Short texts and attachments go into that
commit; only long ones become files. A claim waits while a commit waits for the disk, so commits
should be few. As soon as a worker is idle, results are saved at once, because the worker may wait
for one of them. Results of suspects are saved at once too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from threading import Condition
from typing import TYPE_CHECKING

from fairlead.backoff import Attempts, Outage
from fairlead.errors import TemporarilyUnavailable
from fairlead.model.blobs import BlobStore
from fairlead.model.documents import Claim
from fairlead.service import Service
from fairlead.worker.result_saver import FinishedJob, Result, ResultSaver
from fairlead.worker.sandbox.answer import Extraction

if TYPE_CHECKING:
    from fairlead.storage import Store

MOST_TOGETHER = 64
GATHER_SECONDS = 0.1  # how long results gather while all workers are busy
MOST_CHARACTERS = 50_000_000
"""Text in memory that may wait to be saved before the engine starts no more documents."""


class ResultWriter:
    """Saves results; `on_saved` is called after each group.

    Texts go to `texts`; attachments are documents, so they go to `files`. During an outage results
    are kept, and saved when it is over.
    """

    def __init__(
        self,
        store: Store,
        files: BlobStore,
        texts: BlobStore,
        on_saved: Callable[[], None],
        outage: Outage | None = None,
    ) -> None:
        self.error: Exception | None = None
        """The error that ended the writer. The engine raises it, and releases unsaved claims."""
        self._saver = ResultSaver(store, files, texts)
        self._on_saved = on_saved
        self._queue: list[FinishedJob] = []
        self._saving: list[Claim] = []
        self._characters = 0
        self._suspects = 0
        self._is_closing = False
        self._is_urgent = True
        self._changed = Condition()
        self._attempts = Attempts(outage or Outage())
        self._service = Service("result writer", self._save_groups)
        self._service.start()

    def add(self, job: FinishedJob) -> None:
        """Queue the result of a claim."""
        with self._changed:
            self._queue.append(job)
            self._characters += _length(job.result)
            self._suspects += job.claim.suspect
            if len(self._queue) == 1 or self._is_time_to_save():  # else the thread need not wake up
                self._changed.notify_all()

    def set_urgent(self, *, is_urgent: bool) -> None:
        """Save results at once, or let them gather."""
        if is_urgent != self._is_urgent:
            with self._changed:
                self._is_urgent = is_urgent
                self._changed.notify_all()

    def unsaved(self) -> list[Claim]:
        """Claims whose result is not saved yet; their leases still need renewing."""
        with self._changed:
            return [job.claim for job in self._queue] + self._saving

    def is_behind(self) -> bool:
        """Whether to start no documents: much text or a suspect is unsaved, or it is an outage."""
        with self._changed:
            is_much = self._suspects > 0 or self._characters > MOST_CHARACTERS
            return is_much or self._attempts.is_failing

    def close(self) -> None:
        """Save all queued results, then end; after an error, `unsaved` has the rest."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._service.join()

    def _save_groups(self) -> Generator[float, None, None]:
        while group := self._next_group():
            try:
                self._save_with_retries(group)
            except Exception as error:
                self.error = error
                return
            else:
                with self._changed:
                    self._suspects -= sum(claim.suspect for claim in self._saving)
                    self._saving = []
            finally:
                self._on_saved()
            yield 0.0

    def _next_group(self) -> list[FinishedJob]:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            self._changed.wait_for(self._is_time_to_save, GATHER_SECONDS)
            group, self._queue = _split(self._queue)
            self._saving = [job.claim for job in group]
            self._characters -= sum(_length(job.result) for job in group)
            return group

    def _is_time_to_save(self) -> bool:
        at_once = self._is_urgent or self._suspects > 0 or self._is_closing
        return at_once or len(self._queue) >= MOST_TOGETHER

    def _save_with_retries(self, group: Sequence[FinishedJob]) -> None:
        while True:
            is_last = self._is_closing
            try:
                self._saver.save(group)
            except TemporarilyUnavailable as error:
                if is_last or not self._attempts.suppresses(error):
                    raise
            else:
                self._attempts.succeeded()
                return
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, self._attempts.pause)


def _split(queue: list[FinishedJob]) -> tuple[list[FinishedJob], list[FinishedJob]]:
    """The next group and the rest. Suspects are a group of their own, as claims wait for them."""
    suspects = [job for job in queue if job.claim.suspect]
    if suspects:
        queue = suspects + [job for job in queue if not job.claim.suspect]
    number = min(len(suspects) or len(queue), MOST_TOGETHER)
    return queue[:number], queue[number:]


def _length(result: Result) -> int:
    if not isinstance(result, Extraction):
        return 0
    parts = sum(len(part.content) for part in result.parts if isinstance(part.content, bytes))
    return len(result.text) + len(result.markdown or "") + parts
