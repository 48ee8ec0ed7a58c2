"""Saves results in a thread of its own, many in one commit.

A worker reads its next document while the result of the last one is being saved. Results gather for
a moment and go together: one fsync of the folder, one commit. Short texts and attachments go into
that commit; only long ones become files. Nobody can claim while that commit waits for the disk, so
there should be few of them. But as soon as a worker is idle, results are saved at once, because one
of them may be what it waits for. So are those of suspects.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from itertools import accumulate
from threading import Condition
from typing import TYPE_CHECKING, NamedTuple

from fairlead.backoff import Attempts, Outage
from fairlead.errors import DataError, TemporarilyUnavailable
from fairlead.model.blobs import HEAD_BYTES, SHORT_BYTES, SHORT_TOGETHER, BlobStore, IncomingBlob
from fairlead.model.documents import (
    WORKER_LOST,
    Broken,
    Claim,
    Delayed,
    Done,
    Failed,
    Moved,
    NewDocument,
    Outcome,
    Saved,
    ShortTexts,
)
from fairlead.model.names import new_id
from fairlead.model.pipelines import READ
from fairlead.model.results import Interim
from fairlead.model.sniff import look
from fairlead.service import Service
from fairlead.worker.pipeline_run import PipelineRun, Source, chunks
from fairlead.worker.sandbox.answer import ExtractedFile, Extraction
from fairlead.worker.sandbox.protocol import PartContent

if TYPE_CHECKING:
    from fairlead.storage import Store


class Stage(Enum):
    """The end of a document with several steps, whose result is in `FinishedJob.run`."""

    DONE = "done"
    DROPPED = "dropped"  # nobody needs the result


class Delay(NamedTuple):
    """The step is tried again in so many seconds; `code`: because it failed."""

    seconds: float
    code: str | None = None
    detail: str | None = None


class Move(NamedTuple):
    """The next steps are those of another queue."""

    queue: str


Result = Extraction | Failed | Broken | Delay | Move | Interim | Stage
"""An `Interim`: a step has ended, and others of the same claim follow."""
MOST_TOGETHER = 64
GATHER_SECONDS = 0.1  # how long results gather while all workers are busy
SHORT_TEXTS = 65_536  # up to which length the texts of a document are kept in the store
MOST_CHARACTERS = 50_000_000
"""Text in memory that may wait to be saved before the engine starts no more documents."""


class FinishedJob(NamedTuple):
    """A claim, its result, and the seconds of work on it; `run`: of a document with steps."""

    claim: Claim
    result: Result
    seconds: float
    run: PipelineRun | None = None


class ResultSaver:
    """Saves results at once, in the calling thread. Texts go to `texts`, attachments to `files`."""

    def __init__(self, store: Store, files: BlobStore, texts: BlobStore) -> None:
        self._store = store
        self._files = files
        self._texts = texts

    def save(self, group: Sequence[FinishedJob]) -> dict[Claim, Saved]:
        """Write files first, then commit the outcomes with their keys; what became of those."""
        texts: list[tuple[str, bytes]] = []
        attachments: list[tuple[str, PartContent]] = []
        ends = {job.claim for job in group if not isinstance(job.result, Interim)}
        self._write_contents(group)
        outcomes = [
            (job.claim, _outcome(job, texts, attachments))
            for job in group
            if not isinstance(job.result, Interim) and job.result is not Stage.DROPPED
        ]
        self._texts.put_all(texts)
        _stream(self._files, attachments)
        interim = {job.claim: job.result for job in group if isinstance(job.result, Interim)}
        pending = [(claim, result) for claim, result in interim.items() if claim not in ends]
        if pending:
            self._store.keep_interim(pending)
        again = {claim.id for claim, _ in outcomes if claim.has_result}
        before = self._store.known_texts(again) if again else set()
        saved = self._store.finish_all(outcomes) if outcomes else []
        if again:
            self._delete_replaced(again, before, [outcome for _, outcome in outcomes])
        stale = [
            outcome
            for (_, outcome), how in zip(outcomes, saved, strict=True)
            if how is Saved.STALE and isinstance(outcome, Done)
        ]
        if stale:
            self._delete_files(stale, {claim.id for claim, _ in outcomes})
        for job in group:
            if job.run is not None and job.claim in ends:
                self._clean_up(job.run)
        return {claim: how for (claim, _), how in zip(outcomes, saved, strict=True)}

    def _write_contents(self, group: Sequence[FinishedJob]) -> None:
        """Stream long contents to blob storage, each once."""
        texts: dict[str, Source] = {}
        files: dict[str, Source] = {}
        runs = [(job.run, _saved(job)) for job in group if job.run is not None]
        for run, interim in runs:
            if interim is not None:
                sources = run.sources
                texts |= {key: sources[key] for key in interim.keys if key in sources}
                files |= {key: sources[key] for key in interim.part_keys if key in sources}
        _stream(self._texts, texts.items())
        _stream(self._files, files.items())
        for run, _ in runs:
            for key in texts.keys() | files.keys():
                run.sources.pop(key, None)

    def _clean_up(self, run: PipelineRun) -> None:
        """Remove what a document with several steps leaves behind when its claim has ended."""
        with suppress(DataError, OSError):  # the sweep of orphans finds them too
            keys = run.replaced.union(run.interim.keys)
            if keys:
                self._texts.delete(keys - self._store.known_texts([run.claim.id]))
        shutil.rmtree(run.folder, ignore_errors=True)

    def _delete_replaced(
        self, documents: set[str], before: set[str], outcomes: Sequence[Outcome]
    ) -> None:
        """Delete the files of results that others replaced, and of attachments that were known."""
        with suppress(DataError, OSError):  # the sweep of orphans finds them too
            self._texts.delete(before - self._store.known_texts(documents))
            done = [outcome for outcome in outcomes if isinstance(outcome, Done)]
            parts = {part.id for each in done for part in each.parts if part.content is None}
            self._files.delete(parts - self._store.known_documents(parts))

    def _delete_files(self, stale: Sequence[Done], documents: set[str]) -> None:
        """Delete files of results that came too late.

        Not those of results that were saved by a commit whose answer got lost.
        """
        with suppress(DataError, OSError):  # the sweep of orphans finds them too
            texts = {key for done in stale for key in (done.text_key, done.markdown_key) if key}
            self._texts.delete(texts - self._store.known_texts(documents))
            parts = {part.id for done in stale for part in done.parts if part.content is None}
            self._files.delete(parts - self._store.known_documents(parts))


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
        """What ended it: the engine raises that, and releases what is unsaved."""
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
        """Take over a claim with its result."""
        with self._changed:
            self._queue.append(job)
            self._characters += _length(job.result)
            self._suspects += job.claim.suspect
            if len(self._queue) == 1 or self._is_time_to_save():  # else it need not wake up
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
        """Whether the engine should start no more: too much text, a suspect, or an outage waits."""
        with self._changed:
            is_much = self._suspects > 0 or self._characters > MOST_CHARACTERS
            return is_much or self._attempts.is_failing

    def close(self) -> None:
        """Save what was taken over, then end; after an error, `unsaved` has the rest."""
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
    """The next group and the rest: suspects alone, as all wait for them; else the oldest."""
    suspects = [job for job in queue if job.claim.suspect]
    if suspects:
        queue = suspects + [job for job in queue if not job.claim.suspect]
    number = min(len(suspects) or len(queue), MOST_TOGETHER)
    return queue[:number], queue[number:]


def _saved(job: FinishedJob) -> Interim | None:
    """The result whose contents are to be written; those of a document that failed are not."""
    if isinstance(job.result, Interim):
        return job.result
    is_wanted = job.result is Stage.DONE or isinstance(job.result, Delay | Move)
    return job.run.interim if job.run is not None and is_wanted else None


def _stream(blobs: BlobStore, sources: Iterable[tuple[str, Source]]) -> None:
    """Store bytes and files by their keys, in chunks: all, or none of them."""
    arriving: list[IncomingBlob] = []
    try:
        for key, source in sources:
            arriving.append(blobs.begin(key))
            for chunk in chunks(source):
                if arriving[-1].add(chunk):
                    arriving[-1].flush()
    except BaseException:
        for blob in arriving:
            blob.discard()
        raise
    [stored] = blobs.keep_each([arriving]) if arriving else [[]]
    if isinstance(stored, Exception):
        raise stored


def _length(result: Result) -> int:
    if not isinstance(result, Extraction):
        return 0
    parts = sum(len(part.content) for part in result.parts if isinstance(part.content, bytes))
    return len(result.text) + len(result.markdown or "") + parts


def _outcome(
    job: FinishedJob, texts: list[tuple[str, bytes]], attachments: list[tuple[str, PartContent]]
) -> Outcome:
    """What the store saves; contents of files are added to `texts` and `attachments`."""
    claim, result, seconds, run = job
    if run is not None and result is Stage.DONE:
        return run.outcome()
    if run is not None and isinstance(result, Delay):
        return Delayed(result.seconds, run.interim, result.code, result.detail, seconds)
    if run is not None and isinstance(result, Move):
        return Moved(result.queue, run.interim, seconds)
    if isinstance(result, Broken) and claim.broke_before and result.code != WORKER_LOST:
        result = Failed(result.code, result.detail)  # it was alone, so nothing else is to blame
    if isinstance(result, Failed | Broken):
        step = (READ, claim.attempts) if run is None else (run.next_step, run.interim.attempts)
        return result._replace(seconds=seconds, step=step[0], step_attempt=step[1])
    assert isinstance(result, Extraction)  # noqa: S101 (all others have `run`)
    text = result.text.encode()
    markdown = None if result.markdown is None else result.markdown.encode()
    is_short = len(text) + len(markdown or b"") <= SHORT_TEXTS
    # Each attempt has keys of its own: a late worker cannot touch the text of a newer one.
    text_key = None if is_short else f"{claim.id}.{claim.fence}.txt"
    markdown_key = None if is_short or markdown is None else f"{claim.id}.{claim.fence}.md"
    files = ((text_key, text), (markdown_key, markdown))
    texts += [(key, content) for key, content in files if key and content is not None]
    documents = _new_documents(result.parts)
    attachments += [
        (document.id, part.content)
        for document, part in zip(documents, result.parts, strict=True)
        if document.content is None
    ]
    return Done(
        kind=result.kind,
        facts={"kind": result.kind, **result.facts, "seconds": round(seconds, 3)},
        text_key=text_key,
        text_sha256=_sha256(text),
        seconds=seconds,
        markdown_key=markdown_key,
        markdown_sha256=None if markdown is None else _sha256(markdown),
        parts=documents,
        short=ShortTexts(text, markdown) if is_short else None,
    )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _head(content: PartContent) -> bytes:
    return content[:HEAD_BYTES] if isinstance(content, bytes) else content.head


def _short(content: PartContent) -> bytes | None:
    if isinstance(content, bytes) and len(content) <= SHORT_BYTES:
        return content
    return None


def _new_documents(parts: Sequence[ExtractedFile]) -> tuple[NewDocument, ...]:
    """A document for each attachment. Short ones bring their content, up to a sum in a commit."""
    sizes = [len(part.content) for part in parts]
    sums = accumulate(size if size <= SHORT_BYTES else 0 for size in sizes)
    return tuple(
        NewDocument(
            new_id(time.time()),  # it only has to be new
            part.name,
            size,
            _sha256(part.content) if isinstance(part.content, bytes) else part.content.sha256,
            look=look(_head(part.content)),
            content=_short(part.content) if total <= SHORT_TOGETHER else None,
        )
        for part, size, total in zip(parts, sizes, sums, strict=True)
    )
