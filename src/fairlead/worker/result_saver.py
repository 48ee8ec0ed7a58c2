"""Saves results: long contents to blob storage, then all outcomes in one commit."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from fairlead.errors import DataError
from fairlead.model.blobs import SHORT_TOGETHER, BlobStore, IncomingBlob
from fairlead.model.documents import (
    Broken,
    Claim,
    Delayed,
    Done,
    Failed,
    JobEnd,
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
from fairlead.policy.retry import is_last_break
from fairlead.worker.contents import Source, chunks, head, measured
from fairlead.worker.pipeline_run import PipelineRun
from fairlead.worker.sandbox.answer import ExtractedFile, Extraction
from fairlead.worker.sandbox.protocol import PartContent

if TYPE_CHECKING:
    from fairlead.storage import Store

SHORT_TEXTS = 65_536  # up to which length the texts of a document are stored in the database


class Stage(Enum):
    """How a document with several steps ended; its result is in `FinishedJob.run`."""

    DONE = "done"
    DROPPED = "dropped"  # the claim was lost, so the result is not saved


class Delay(NamedTuple):
    """The step runs again in so many seconds; `code`: why the last attempt failed."""

    seconds: float
    code: str | None = None
    detail: str | None = None


class Move(NamedTuple):
    """The document goes to the queue of its next steps."""

    queue: str


Result = Extraction | Failed | Broken | Delay | Move | Interim | Stage
"""An `Interim`: a step has ended, and others of the same claim follow."""


class FinishedJob(NamedTuple):
    """A claim, its result, and the seconds of work on it.

    `run`: for a document with steps. `job_end`: for a pulled job that a program has ended.
    """

    claim: Claim
    result: Result
    seconds: float
    run: PipelineRun | None = None
    job_end: JobEnd | None = None


class ResultSaver:
    """Saves results at once, in the calling thread. Texts go to `texts`, attachments to `files`."""

    def __init__(self, store: Store, files: BlobStore, texts: BlobStore) -> None:
        self._store = store
        self._files = files
        self._texts = texts

    def save(self, group: Sequence[FinishedJob]) -> dict[Claim, Saved]:
        """Write files first, then commit the outcomes; return how each of them was saved."""
        ended = [job for job in group if not isinstance(job.result, Interim)]
        claims = {job.claim for job in ended}
        interim = {job.claim: job.result for job in group if isinstance(job.result, Interim)}
        pending = [(claim, result) for claim, result in interim.items() if claim not in claims]
        texts: list[tuple[str, bytes]] = []
        attachments: list[tuple[str, PartContent]] = []
        self._write_contents(group)
        outcomes = {
            job.claim: _outcome(job, texts, attachments)
            for job in ended
            if job.result is not Stage.DROPPED
        }
        self._texts.put_all(texts)
        _stream(self._files, attachments)
        if pending:
            self._store.keep_interim(pending)
        job_ends = {job.claim: job.job_end for job in ended if job.job_end is not None}
        saved = self._finish(outcomes, job_ends) if outcomes else {}
        for job in ended:
            if job.run is not None:
                self._clean_up(job.run)
        return saved

    def _finish(
        self, outcomes: Mapping[Claim, Outcome], job_ends: Mapping[Claim, JobEnd]
    ) -> dict[Claim, Saved]:
        """Commit the outcomes; delete the files that the store does not need after that."""
        results = {claim: done for claim, done in outcomes.items() if isinstance(done, Done)}
        had_results = {claim.id for claim in outcomes if claim.has_result}
        earlier_keys = self._store.known_texts(had_results) if had_results else set()
        ends = self._store.finish_all(list(outcomes.items()), job_ends)
        saved = dict(zip(outcomes, ends, strict=True))
        if had_results:
            self._delete_unknown(had_results, earlier_keys, results.values())
        stale = [done for claim, done in results.items() if saved[claim] is Saved.STALE]
        if stale:
            text_keys = ((done.text_key, done.markdown_key) for done in stale)
            keys = {key for pair in text_keys for key in pair if key}
            self._delete_unknown({claim.id for claim in outcomes}, keys, stale)
        return saved

    def _write_contents(self, group: Sequence[FinishedJob]) -> None:
        """Stream long contents to blob storage, each once."""
        texts: dict[str, Source] = {}
        files: dict[str, Source] = {}
        runs = [(job.run, _interim_to_write(job)) for job in group if job.run is not None]
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
        """Remove job files and replaced contents of a document whose claim has ended."""
        with suppress(DataError, OSError):  # the sweep of orphans finds them too
            keys = run.replaced.union(run.interim.keys)
            if keys:
                self._texts.delete(keys - self._store.known_texts([run.claim.id]))
        shutil.rmtree(run.folder, ignore_errors=True)

    def _delete_unknown(self, documents: set[str], keys: set[str], results: Iterable[Done]) -> None:
        """Delete the files of results that were replaced or came too late.

        Files that the store knows stay: the answer to an earlier commit may have been lost.
        """
        with suppress(DataError, OSError):  # the sweep of orphans finds them too
            self._texts.delete(keys - self._store.known_texts(documents))
            parts = {part.id for done in results for part in done.parts if part.content is None}
            self._files.delete(parts - self._store.known_documents(parts))


def _interim_to_write(job: FinishedJob) -> Interim | None:
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


def _outcome(
    job: FinishedJob, texts: list[tuple[str, bytes]], attachments: list[tuple[str, PartContent]]
) -> Outcome:
    """The outcome that the store saves; long contents are added to `texts` and `attachments`."""
    claim, result, seconds, run, _ = job
    if isinstance(result, Extraction):
        return _done(claim, result, seconds, texts, attachments)
    if run is not None and result is Stage.DONE:
        return run.outcome()
    if run is not None and isinstance(result, Delay):
        return Delayed(result.seconds, run.interim, result.code, result.detail, seconds)
    if run is not None and isinstance(result, Move):
        return Moved(result.queue, run.interim, seconds)
    if isinstance(result, Broken) and is_last_break(result.code, broke_before=claim.broke_before):
        result = Failed(result.code, result.detail)
    assert isinstance(result, Failed | Broken)  # noqa: S101 (all others have `run`)
    step = (READ, claim.attempts) if run is None else (run.next_step, run.interim.attempts)
    return result._replace(seconds=seconds, step=step[0], step_attempt=step[1])


def _done(
    claim: Claim,
    extraction: Extraction,
    seconds: float,
    texts: list[tuple[str, bytes]],
    attachments: list[tuple[str, PartContent]],
) -> Done:
    """The outcome of a document whose only step is reading."""
    text = extraction.text.encode()
    markdown = None if extraction.markdown is None else extraction.markdown.encode()
    is_short = len(text) + len(markdown or b"") <= SHORT_TEXTS
    # Each attempt has keys of its own: a late worker cannot touch the text of a newer one.
    text_key = None if is_short else f"{claim.id}.{claim.fence}.txt"
    markdown_key = None if is_short or markdown is None else f"{claim.id}.{claim.fence}.md"
    files = ((text_key, text), (markdown_key, markdown))
    texts += [(key, content) for key, content in files if key and content is not None]
    documents = _new_documents(extraction.parts)
    attachments += [
        (document.id, part.content)
        for document, part in zip(documents, extraction.parts, strict=True)
        if document.content is None
    ]
    return Done(
        kind=extraction.kind,
        facts={"kind": extraction.kind, **extraction.facts, "seconds": round(seconds, 3)},
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


def _new_documents(parts: Sequence[ExtractedFile]) -> tuple[NewDocument, ...]:
    """A document for each attachment. Short contents are stored in the row, up to a total size."""
    contents = [measured(part.content) for part in parts]
    sums = accumulate(len(content.short or b"") for content in contents)
    return tuple(
        NewDocument(
            new_id(time.time()),  # it only has to be new
            part.name,
            content.size,
            content.sha256,
            look=look(head(part.content)),
            content=content.short if total <= SHORT_TOGETHER else None,
        )
        for part, content, total in zip(parts, contents, sums, strict=True)
    )
