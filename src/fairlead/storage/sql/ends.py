"""Ends of claims: results, failures, broken attempts, and documents of lost workers."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fairlead.model.documents import (
    WORKER_LOST,
    Broken,
    Claim,
    Delayed,
    Done,
    EventKind,
    Failed,
    JobEnd,
    Moved,
    NewDocument,
    Outcome,
    Saved,
    Sniff,
)
from fairlead.model.pipelines import pipeline_of
from fairlead.model.results import Interim, encode_interim
from fairlead.policy.attachments import Family
from fairlead.policy.costs import CostBucket, cost_bucket
from fairlead.policy.queue_events import ChargeValues, Ended, Learned
from fairlead.storage.sql import rows
from fairlead.storage.sql.accept import Origin, SubmissionWriter, lock_customers
from fairlead.storage.sql.batches import settle_batches
from fairlead.storage.sql.parts import settle_parts
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction
from fairlead.storage.sql.waiting_rows import Waiting, arrived

MOST_PAGES = 1_000_000
"""The most pages of one document in the usage of its customer."""


class Running(NamedTuple):
    """A row of `running`. The first fields are the columns of `waiting`."""

    customer: int
    pipeline: str
    slot: int
    slot_seq: int
    document: int
    priority: int
    urgent: int
    displaced: int
    estimate: float
    submitted_at: float
    attempts: int
    suspect: int
    error: str | None
    detail: str | None
    lease: int
    worker: str
    ready: int
    started_at: float
    payer: int
    charge: float | None
    charge_weight: float | None
    charged_tag: int | None
    inner_charge: float | None
    inner_tag: int | None

    def waiting(self, **changes: Any) -> Waiting:
        """Its row of `waiting`, or of `delayed` after the due time."""
        return Waiting._make(self[: len(Waiting._fields)])._replace(**changes)

    def ended(self, now: float, seconds: float | None, *, is_delayed: bool = False) -> Ended:
        charge: ChargeValues | None = None
        inner: ChargeValues | None = None
        if self.charge is not None and self.charge_weight is not None:
            charge = (self.charge, self.charge_weight, bool(self.charged_tag))
        if self.inner_charge is not None:
            inner = (self.inner_charge, 1.0, bool(self.inner_tag))
        place = (self.customer, self.pipeline)
        return Ended(now, *place, seconds, self.payer, charge, inner, is_delayed)


class _Details(NamedTuple):
    """The columns of a document that its end needs."""

    seq: int
    shape: str
    pages: int | None
    size: int
    root: int | None
    depth: int
    metadata: str | None
    batch: str | None
    has_result: bool


def settle_all(
    tx: Transaction,
    outcomes: Sequence[tuple[Claim, Outcome]],
    job_ends: Mapping[Claim, JobEnd],
) -> list[Saved]:
    """Save the outcomes of claims that are the newest of their document; others are stale."""
    parts = _Parts(tx, outcomes)
    keys = [(claim.number, claim.fence) for claim, _ in outcomes]
    taken = tx.connection.query_many(sql("take_running"), list(dict.fromkeys(keys)))
    values = (tx.connection.array(sorted({document for document, _ in keys})),)
    ending = tx.connection.execute(sql("ending_documents"), values)
    running_by_key = {(row.document, row.lease): row for row in map(Running._make, taken)}
    details = {row.seq: row for row in map(_Details._make, ending)}
    writer, saved = _EndWriter(tx), []
    for key, (_, outcome) in zip(keys, outcomes, strict=True):
        running = running_by_key.pop(key, None)
        if running is None:
            saved.append(Saved.STALE)
            continue
        saved.append(Saved.SAVED)
        detail = details[running.document]
        match outcome:
            case Done():
                writer.finish(running, detail, parts.choose(running, detail, outcome))
                parts.accept(running, detail)
            case Failed():
                writer.fail(running, outcome, detail)
            case Broken():
                writer.requeue_or_fail(running, outcome, detail)
            case Delayed():
                writer.delay(running, outcome)
            case Moved():
                writer.move(running, outcome)
    writer.write()
    parts.write()
    settle_batches(tx, writer.batches)
    settle_parts(tx, writer.ended)
    _put_job_ends(tx, job_ends, outcomes, saved)
    return saved


def _put_job_ends(
    tx: Transaction,
    job_ends: Mapping[Claim, JobEnd],
    outcomes: Iterable[tuple[Claim, Outcome]],
    saved: Iterable[Saved],
) -> None:
    if not job_ends:  # as of all engines
        return
    ended = [
        (claim.number, claim.fence, *end)
        for (claim, _), how in zip(outcomes, saved, strict=True)
        if how is Saved.SAVED and (end := job_ends.get(claim)) is not None
    ]
    if ended:
        tx.connection.executemany(sql("put_job_end"), ended)


def release(tx: Transaction, claims: Sequence[Claim]) -> list[Saved]:
    """Give back claims without an outcome; the attempts do not count."""
    keys = [(claim.number, claim.fence) for claim in claims]
    released = _release(tx, keys)
    return [Saved.SAVED if key in released else Saved.STALE for key in keys]


def release_from(tx: Transaction, workers: Sequence[str]) -> int:
    """Give back all claims of these workers; return how many."""
    values = (tx.connection.array(workers),)
    return len(_release(tx, tx.connection.execute(sql("claims_of_workers"), values).fetchall()))


def _release(tx: Transaction, keys: Sequence[tuple[Any, ...]]) -> set[tuple[int, int]]:
    writer = _EndWriter(tx)
    taken = [Running(*row) for row in tx.connection.query_many(sql("take_running"), keys)]
    for running in taken:
        writer.requeue(running, attempts=running.attempts - 1)
        data = {"fence": running.lease}
        tx.add_event(EventKind.RELEASED, running.customer, running.document, **data)
    writer.write()
    return {(running.document, running.lease) for running in taken}


def rescue_expired(tx: Transaction, expired_at: float) -> int:
    """Requeue the documents of leases that ended by this time; return how many."""
    leases = tx.connection.execute(sql("take_expired_leases"), (expired_at,)).fetchall()
    return _rescue(tx, [row[0] for row in leases])


def rescue_from(tx: Transaction, worker: str) -> int:
    leases = tx.connection.execute(sql("take_leases_of"), (worker,)).fetchall()
    return _rescue(tx, [row[0] for row in leases])


def _rescue(tx: Transaction, leases: Sequence[int]) -> int:
    """Requeue the documents of lost workers; fail those without attempts left.

    The attempt at a prefetched document does not count, because it may not have begun. The document
    becomes a suspect, which is never prefetched, so this happens only once per document.
    """
    if not leases:
        return 0
    values = (tx.connection.array(sorted(leases)),)
    keys = tx.connection.execute(sql("claims_of_leases"), values).fetchall()
    writer = _EndWriter(tx)
    taken = [Running(*row) for row in tx.connection.query_many(sql("take_running"), keys)]
    settled = _settled_claims(tx, [running.document for running in taken])
    for running in taken:
        lost = running.attempts - settled[running.document]
        if not running.ready and tx.rules.retry.delay(lost) is None:
            detail = f"its worker died {lost} times while processing it"
            writer.fail(running, Failed(WORKER_LOST, detail), None, lost=True)
            root, batch = tx.connection.execute(sql("family_and_batch"), (running.document,)).get
            writer.batches.add(batch)
            writer.ended[running.document] = root
        else:
            writer.requeue(running, attempts=running.attempts - running.ready, suspect=1)
            data = {"worker": running.worker} | ({"ready": True} if running.ready else {})
            tx.add_event(EventKind.RESCUED, running.customer, running.document, **data)
    writer.write()
    settle_batches(tx, writer.batches)
    settle_parts(tx, writer.ended)
    return len(taken)


def _settled_claims(tx: Transaction, documents: Sequence[int]) -> Counter[int]:
    """The number of claims of each document that a step's decision ended: they are not lost."""
    values = (tx.connection.array(sorted(documents)),)
    return Counter(dict(tx.connection.execute(sql("settled_claims"), values).fetchall()))


def settle_cancelled(tx: Transaction, running: Running) -> None:
    """Settle a claim whose document was cancelled while it was processed."""
    used = max(0.0, tx.now - running.started_at)
    tx.count_usage(running.customer, seconds=used)
    tx.add_queue_event(running.ended(tx.now, used))


def keep_interim(tx: Transaction, interims: Sequence[tuple[Claim, Interim]]) -> list[Saved]:
    """Store interim results of steps, except for stale claims."""
    return [
        Saved.STALE
        if tx.connection.execute(
            sql("save_interim"), (claim.number, claim.fence, *interim_values(interim))
        ).get
        is None
        else Saved.SAVED
        for claim, interim in interims
    ]


def interim_values(interim: Interim) -> tuple[Any, ...]:
    keys = json.dumps([*interim.keys, *interim.part_keys])
    body = encode_interim(interim)
    return interim.settled, interim.step, interim.attempts, interim.later, body, keys


class _EndWriter:
    """Collects the ends of claims and writes them together."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.batches: set[str | None] = set()
        """The batches of documents that have ended."""
        self.ended: dict[int, int | None] = {}
        """The documents that have ended, with the roots of those that are parts."""
        self._done: list[tuple[Any, ...]] = []
        self._failed: list[tuple[Any, ...]] = []
        self._retry_slots: list[tuple[Any, ...]] = []
        self._texts: list[tuple[Any, ...]] = []
        self._waiting: list[Waiting] = []
        self._delayed: list[tuple[Any, ...]] = []
        self._results: list[tuple[Any, ...]] = []
        self._interim: list[tuple[Any, ...]] = []
        self._queues: list[tuple[Any, ...]] = []
        self._causes: list[tuple[Any, ...]] = []
        self._replaced: list[int] = []
        self._learned: defaultdict[CostBucket, list[float]] = defaultdict(list)

    def write(self) -> None:
        run = self._tx.connection.executemany
        for bucket, seconds in self._learned.items():
            self._tx.add_queue_event(Learned(*bucket, tuple(seconds)))
        run(sql("finish_document"), self._done)
        if self._replaced:
            array = self._tx.connection.array(sorted(self._replaced))
            self._tx.connection.execute(sql("delete_results"), (array,))
        run(sql("insert_text"), self._texts)
        run(sql("insert_result"), self._results)
        run(sql("put_interim"), self._interim)
        run(sql("set_queue"), self._queues)
        if self.ended:
            array = self._tx.connection.array(sorted(self.ended))
            self._tx.connection.execute(sql("forget_interim"), (array,))
        run(sql("fail_document"), self._failed)
        run(sql("set_cause"), self._causes)
        run(sql("add_retry_slot"), self._retry_slots)
        run(sql("insert_waiting"), self._waiting)
        run(sql("insert_delayed"), self._delayed)

    def finish(self, running: Running, detail: _Details, done: Done) -> None:
        tx, number = self._tx, running.document
        facts = rows.data_text(dict(done.facts)) or "{}"  # not NULL: there is a result
        if detail.has_result:
            self._replaced.append(number)
        self._keep_swapped_slot(running)
        times = (done.seconds, running.started_at, tx.now, running.attempts)
        self._done.append((number, done.kind, facts, rows.files_text(done.files), *times))
        short = (None, None) if done.short is None else done.short
        if done.text_sha256 is not None:
            text = (done.text_key, done.text_sha256, short[0])
            self._texts.append((number, "text", *text))
        if done.markdown_sha256 is not None or short[1] is not None:
            markdown = (done.markdown_key, done.markdown_sha256, short[1])
            self._texts.append((number, "markdown", *markdown))
        pages = {name: _page_count(done.facts.get(name)) for name in ("pages", "ocr_pages")}
        tx.count_usage(running.customer, **pages, seconds=done.seconds or 0.0)
        files = [("file", file) for file in done.files]
        files += [] if done.data is None else [("data", done.data)]
        self._results += [
            (
                number,
                role,
                file.name,
                file.media_type,
                file.size,
                file.key,
                file.sha256,
                file.content,
            )
            for role, file in files
        ]
        self._end(running, "done", done.seconds, detail, done.work)
        tx.add_event(EventKind.DONE, running.customer, number, seconds=done.seconds)

    def _keep_swapped_slot(self, running: Running) -> None:
        """Store the slot that it used up, for a retry, unless that is its own slot."""
        slot = (running.slot, running.slot_seq)
        own = self._tx.slot(running.priority, running.document, urgent=bool(running.urgent))
        if slot != own or running.displaced:
            row = (running.document, running.customer, *slot, running.displaced)
            self._retry_slots.append(row)

    def fail(
        self, running: Running, failed: Failed, detail: _Details | None, *, lost: bool = False
    ) -> None:
        tx, number = self._tx, running.document
        code, words, kind, seconds, cause, *step = failed
        if cause is not None:
            self._causes.append((cause, number))
        times = (seconds, running.started_at, tx.now, running.attempts)
        self._failed.append((number, kind, code, words, *step, *times))
        slot = (running.slot, running.slot_seq, running.displaced)
        self._retry_slots.append((number, running.customer, *slot))
        tx.count_usage(running.customer, seconds=seconds or 0.0, failures=1)
        self._end(running, "failed", 0.0 if lost else seconds, detail)
        data: dict[str, Any] = {"error": code, "seconds": seconds} | _step_data(failed.step)
        tx.add_event(EventKind.FAILED, running.customer, number, **data)

    def requeue_or_fail(self, running: Running, broken: Broken, detail: _Details) -> None:
        tx, (code, words, seconds, step, step_attempt) = self._tx, broken
        delay = tx.rules.retry.delay(running.attempts)
        if delay is None:
            failed = Failed(code, words, seconds=seconds, step=step, step_attempt=step_attempt)
            self.fail(running, failed, detail)
            return
        tx.count_usage(running.customer, seconds=seconds or 0.0)
        row = running.waiting(error=code, detail=words)
        self._delayed.append((tx.now + delay, *row))
        tx.add_queue_event(running.ended(tx.now, seconds, is_delayed=True))
        self._count(running, "waiting")
        data = {"error": code, "delay": delay} | _step_data(step)
        tx.add_event(EventKind.REQUEUED, running.customer, running.document, **data)

    def delay(self, running: Running, delayed: Delayed) -> None:
        """Let a step run again later; interim results are kept."""
        tx, number = self._tx, running.document
        row = running.waiting(error=delayed.code, detail=delayed.detail)
        self._delayed.append((tx.now + delayed.delay, *row))
        self._interim.append((number, *interim_values(delayed.interim)))
        tx.count_usage(running.customer, seconds=delayed.seconds or 0.0)
        tx.add_queue_event(running.ended(tx.now, delayed.seconds, is_delayed=True))
        self._count(running, "waiting")
        data: dict[str, Any] = {"error": delayed.code or "retry-later", "delay": delayed.delay}
        data |= _step_data(delayed.interim.step)
        if delayed.code is not None or delayed.interim.later <= 1:  # one event for a row of them
            tx.add_event(EventKind.REQUEUED, running.customer, number, **data)

    def move(self, running: Running, moved: Moved) -> None:
        """Put a document into the queue of its next steps, at its slot."""
        tx, number, queue = self._tx, running.document, moved.queue
        self._interim.append((number, *interim_values(moved.interim)))
        self._queues.append((queue, moved.interim.kind, number))
        tx.count_usage(running.customer, seconds=moved.seconds or 0.0)
        changes = {"attempts": running.attempts - 1, "error": None, "detail": None}
        self.requeue(running, moved.seconds, pipeline=queue, **changes)
        tx.add_event(EventKind.RELEASED, running.customer, number, fence=running.lease, queue=queue)

    def requeue(self, running: Running, seconds: float | None = 0.0, **changes: Any) -> None:
        """Put a document back into the queue, at its slot; `seconds` is the work that counts."""
        tx, row = self._tx, running.waiting(**changes)
        self._waiting.append(row)
        tx.add_queue_event(running.ended(tx.now, seconds))
        tx.add_queue_event(arrived(tx.now, [row]))
        self._count(running, "waiting")

    def _end(
        self,
        running: Running,
        state: str,
        seconds: float | None,
        detail: _Details | None,
        work: float | None = None,
    ) -> None:
        """Settle the charge of the start, and learn the cost from the work of all claims."""
        self.ended[running.document] = None if detail is None else detail.root
        self._tx.add_queue_event(running.ended(self._tx.now, seconds))
        self._count(running, state)
        if detail is not None:
            self.batches.add(detail.batch)
        if seconds is not None and detail is not None:
            pipeline = pipeline_of(running.pipeline)
            bucket = cost_bucket(Sniff(detail.shape, detail.pages), detail.size, pipeline)
            self._learned[bucket].append(seconds if work is None else work)

    def _count(self, running: Running, state: str) -> None:
        self._tx.count_state("processing", running.priority, -1)
        self._tx.count_state(state, running.priority, 1)


def _step_data(step: str | None) -> dict[str, Any]:
    return {} if step is None else {"step": step}


def _page_count(fact: object) -> int:
    """A number among the facts, which come from an untrusted process."""
    if not isinstance(fact, int) or isinstance(fact, bool):
        return 0
    return min(max(fact, 0), MOST_PAGES)


class _Parts:
    """The attachments of finished documents. It locks their customers before any other row."""

    def __init__(self, tx: Transaction, outcomes: Iterable[tuple[Claim, Outcome]]) -> None:
        self._tx = tx
        owners = {
            claim.customer for claim, done in outcomes if isinstance(done, Done) and done.parts
        }
        self._customers: dict[int, rows.CustomerRow] = {}
        self._accepted: dict[int, Sequence[NewDocument]] = {}
        self._writer: SubmissionWriter | None = None
        if owners:
            find = tx.connection.execute
            ids = [find(sql("customer_id"), (name,)).get for name in sorted(owners)]
            known = [id_ for id_ in ids if id_ is not None]  # others were deleted meanwhile
            self._customers = {row.id: row for row in lock_customers(tx, known)}

    def choose(self, running: Running, detail: _Details, done: Done) -> Done:
        """Choose the parts that become documents; return the result with the number left out."""
        if detail.has_result:
            done = done._replace(parts=self._new_parts(running, done))
        if not done.parts:
            return done
        root = running.document if detail.root is None else detail.root
        if self._writer is not None:
            self._writer.write()  # the family of a document may have grown in this transaction
        family = self._tx.connection.execute(sql("family_of"), (root,)).fetchone()
        assert family is not None  # noqa: S101 (an aggregate always has a row)
        sizes = [part.size for part in done.parts]
        number = self._tx.rules.parts.accepted(detail.depth, Family(*family), sizes)
        inherited = {
            "urgent": bool(running.urgent),
            "batch": detail.batch,
            "metadata": json.loads(detail.metadata) if detail.metadata else {},
        }
        accepted = [part._replace(**inherited) for part in done.parts[:number]]
        self._accepted[running.document] = accepted
        left_out = len(done.parts) - number
        facts = dict(done.facts) | ({"parts_left_out": left_out} if left_out else {})
        return done._replace(facts=facts)

    def _new_parts(self, running: Running, done: Done) -> tuple[NewDocument, ...]:
        """The parts that did not become documents with an earlier result."""
        values = (running.document,)
        earlier = Counter(self._tx.connection.execute(sql("parts_of_document"), values).fetchall())
        new = []
        for part in done.parts:
            if earlier[part.name, part.sha256] > 0:
                earlier[part.name, part.sha256] -= 1
            else:
                new.append(part)
        return tuple(new)

    def accept(self, running: Running, detail: _Details) -> None:
        parts = self._accepted.get(running.document)
        if parts:
            root = running.document if detail.root is None else detail.root
            origin = Origin(running.document, root, detail.depth + 1)
            self._writer = self._writer or SubmissionWriter(self._tx)
            self._writer.accept_parts(self._customers[running.customer], parts, origin)

    def write(self) -> None:
        if self._writer is not None:
            self._writer.write()
