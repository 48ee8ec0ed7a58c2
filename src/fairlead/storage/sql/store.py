"""`Store`: the interface of the storage, and all of it that SQLite and PostgreSQL share."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import uuid4

from fairlead.change_feed import ChangeFeed
from fairlead.errors import DamagedData, ReadOnlyData, StoreRefused, TemporarilyUnavailable
from fairlead.model.batches import StoredBatch
from fairlead.model.customers import CustomerRecord, Fairness
from fairlead.model.documents import (
    CheckedDocument,
    Claim,
    Document,
    DocumentCheck,
    Event,
    JobEnd,
    Outcome,
    Progress,
    Saved,
    ShortTexts,
    StoredDocument,
    StoredResult,
    Submission,
    Switched,
    Tally,
    Totals,
)
from fairlead.model.engines import EngineReport, StepUse
from fairlead.model.explanations import PipelineState, QueuePlace
from fairlead.model.keys import Key, KeyOwner, StoredKey
from fairlead.model.pipeline_figures import PipelineCounts
from fairlead.model.pipelines import DEFAULT_PIPELINE, ClaimRequest, Pipeline
from fairlead.model.results import AskingStep, Content, Interim
from fairlead.model.states import State
from fairlead.model.submissions import NotBefore
from fairlead.model.usage import Usage, UsageRow
from fairlead.policy.forecast import Outlook
from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import Rules
from fairlead.storage.sql import (
    accept,
    actions,
    batches,
    change_document,
    claims,
    ends,
    pipeline_reads,
    position,
    quotas,
    reads,
    switch_policy,
)
from fairlead.storage.sql.group_commit import Writer
from fairlead.storage.sql.outbox import Outbox
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")

_STORE_ERRORS = (DamagedData, TemporarilyUnavailable, ReadOnlyData, StoreRefused)
"""Errors that no submission causes; the commit may have succeeded."""

FOLD_AFTER = 32
"""Writes of a process after which it checks whether to fold the queue."""
MANY_EVENTS = 100
"""Events of the queue that are folded even without a claim."""

MOST_SUMMED = 10_000
"""Rows of usage that one transaction adds up."""

_log = logging.getLogger(__name__)


class Store(ABC):
    """All methods may be called from any thread.

    `rules` gives the rules in force. Each write reads them and the time inside its transaction, so
    that times have the order of the commits. A subclass implements the database.
    """

    changes: ChangeFeed

    def __init__(self, writer: Writer, *, rules: Callable[[], Rules]) -> None:
        self._writer = writer
        self._rules = rules
        self._policy_set: PolicyName | None = None
        self._unfolded_writes = 0
        self._extent = claims.Extent()
        self.outbox: Outbox = Outbox(self._write, self._reading)

    # --- implemented by each database ---

    @abstractmethod
    def close(self) -> None: ...

    def hurry(self) -> None:  # noqa: B027 (most cannot)
        """Wait for locks only briefly from now on: this process is about to stop.

        Signal handlers may call it.
        """

    @abstractmethod
    def now(self) -> float:
        """The time by the store's clock."""

    def seen_by(self, customer: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Hide other customers' rows from reads in this context, if the database can.

        Reads of the whole queue are exempt: places, numbers, the flow of work.
        """
        return nullcontext()

    @abstractmethod
    def only_one(self, duty: str) -> AbstractContextManager[bool]:
        """Whether this process got the lock of a duty that one process at a time should do.

        The lock of a process that died is free at once. The lock does not guarantee exclusion: a
        process cut off from the database may continue for a moment.
        """

    @abstractmethod
    def _reading(self, *, whole: bool = False) -> AbstractContextManager[Connection]:
        """A connection for this thread only, with one snapshot.

        `whole`: it sees all customers, also within `seen_by`.
        """

    def _see_all(self, connection: Connection) -> None:  # noqa: B027 (most see all anyway)
        """Let a connection of `_reading` see all customers from now on, in the same snapshot."""

    @abstractmethod
    def _now(self, connection: Connection) -> float:
        """The time, in a transaction of this connection."""

    @abstractmethod
    def _damage(self, connection: Connection) -> list[str]:
        """Damage that the database reports about its own files."""

    def free_bytes(self) -> int:
        """Free space within the files of the database; 0 for a server."""
        return 0

    def shrink(self, is_enough: Callable[[], bool]) -> None:  # noqa: B027 (servers do it)
        """Give free pages back to the disk until it has enough room."""

    def warnings(self) -> list[str]:
        """Warnings about the configuration of the database, for the doctor."""
        return []

    # --- acceptance ---

    def submit(self, submission: Submission) -> list[Document]:
        """Check and accept the documents in one transaction, or refuse them all."""
        return self._write(lambda tx: accept.accept(tx, submission), folds=True)

    def submit_each(self, submissions: Sequence[Submission]) -> list[list[Document] | Exception]:
        """Accept many submissions with one fsync, each accepted or refused alone."""
        if not submissions:
            return []
        try:
            return self._write(lambda tx: accept.accept_each(tx, submissions), folds=True)
        except _STORE_ERRORS as error:
            return [error] * len(submissions)
        except Exception as error:  # one submission failed: accept the others one by one
            if len(submissions) == 1:
                return [error]
        return self._writer.run_each(
            [
                partial(self._change, partial(accept.accept, submission=submission), None)
                for submission in submissions
            ]
        )

    # --- claims ---

    def claim(self, worker: str) -> Claim | None:
        """The next document for a free worker; None: nothing may run now."""
        return next(iter(self.claim_for([worker])), None)

    def claim_for(
        self,
        workers: Sequence[str],
        ahead: Sequence[str] = (),
        pipelines: Sequence[str] | None = None,
    ) -> list[Claim]:
        """Claim a document for each free worker, then prefetched ones for the workers `ahead`.

        Only documents of these pipelines; None: of all.
        """
        return self.claim_requests([ClaimRequest(workers, ahead, pipelines)])[0]

    def claim_requests(self, requests: Sequence[ClaimRequest]) -> tuple[list[Claim], float]:
        """Claim documents for each request, in the order of the queue.

        The second value is the seconds until a quota that holds documents back lets one start.

        A claim need not survive a power cut: its worker would not survive either. A lease that
        ended while this claim waited for a lock is not rescued: its worker had to wait as well.
        """
        self.follow_settings()
        claimed: list[Claim] = []
        requested = claims.Requested(requests)
        width = requested.number + 1
        while True:
            try:
                result = self._claim(requested, width)
            except TemporarilyUnavailable:
                if claimed:  # earlier rounds are committed; the next call meets the outage
                    return claimed, 0.0
                raise
            claimed += result.claims
            self._extent = result.extent
            if not result.is_partial:
                return claimed, result.opens_in
            width = width if result.claims else 4 * width
            requested = requested.without(result.claims)

    def _claim(self, requested: claims.Requested, width: int) -> claims.ClaimResult:
        asked_at = self._writer.asked_at()

        def claim(connection: Connection) -> Callable[[], claims.ClaimResult]:
            tx = self._transaction(connection)
            return claims.claim_documents(tx, requested, width, self._extent, asked_at)

        return self._writer.run_alone(claim, durable=False)()

    def fold(self) -> None:
        """Apply the events of the queue without a claim."""
        self.claim_for([])

    def _fold_now_and_then(self) -> None:
        """Fold a long list of events if no worker claims; one process is enough."""
        self._unfolded_writes += 1
        if self._unfolded_writes < FOLD_AFTER:
            return
        self._unfolded_writes = 0
        with self._reading(whole=True) as connection:
            number = connection.execute(sql("number_of_events"), (MANY_EVENTS + 1,)).get
        if number > MANY_EVENTS:
            with self.only_one("fold") as is_alone:
                if is_alone:
                    self.fold()

    def held_claim(self, id_: str, fence: int) -> Claim | None:
        """The claim of this document and fence; None: it has ended."""
        return self._read_whole(claims.held_claim, id_, fence)

    def renew(self, held_claims: Sequence[Claim]) -> list[Claim]:
        """Renew the leases; return the claims that are lost."""
        return self._write(lambda tx: claims.renew(tx, held_claims), durable=False)

    def lost(self, held_claims: Sequence[Claim]) -> list[Claim]:
        """The claims that ended without this worker: cancelled, or rescued from it."""
        return self._read_whole(claims.lost, held_claims)

    def progress(self, steps: Sequence[Progress]) -> None:
        """Record the progress of claims; a stale one is ignored."""
        self._write(lambda tx: claims.progress(tx, steps), durable=False)

    def finish(self, claim: Claim, outcome: Outcome) -> Saved:
        """Save the outcome of a claim; a stale one changes nothing."""
        return self.finish_all([(claim, outcome)])[0]

    def finish_all(
        self,
        outcomes: Sequence[tuple[Claim, Outcome]],
        job_ends: Mapping[Claim, JobEnd] = MappingProxyType({}),
    ) -> list[Saved]:
        """Save many outcomes in one transaction, and who ended the claims of pulled jobs."""
        return self._write(lambda tx: ends.settle_all(tx, outcomes, job_ends), folds=True)

    def job_end(self, id_: str, fence: int) -> JobEnd | None:
        """How the last pulled job of a document ended; None: it had another fence."""
        return self._read_whole(reads.job_end, id_, fence)

    def keep_interim(self, interims: Sequence[tuple[Claim, Interim]]) -> list[Saved]:
        """Store results of steps until the document ends; a stale claim changes nothing.

        They need not survive a power cut: then the steps are repeated.
        """
        return self._write(lambda tx: ends.keep_interim(tx, interims), durable=False)

    def release(self, held_claims: Sequence[Claim]) -> list[Saved]:
        """Give back claims without an outcome; the attempts do not count."""
        return self._write(lambda tx: ends.release(tx, held_claims))

    def release_from(self, workers: Sequence[str]) -> int:
        """Give back all claims of these workers, when they stop; the attempts do not count."""
        return self._write(lambda tx: ends.release_from(tx, workers))

    def lease_holders(self) -> list[str]:
        """The names of all workers that hold a claim."""
        with self._reading(whole=True) as connection:
            return [row[0] for row in connection.execute(sql("lease_holders"))]

    def rescue_from(self, worker: str) -> int:
        """Requeue the documents of a worker that is known to be gone, before its leases end."""
        return self._write(lambda tx: ends.rescue_from(tx, worker))

    def attend(
        self,
        engine: str,
        workers: int,
        queues: Sequence[str] = (DEFAULT_PIPELINE,),
        steps: Sequence[StepUse] = (),
    ) -> None:
        """Record the workers, queues and steps of an engine, for the duration of a lease."""
        report = EngineReport(engine, workers, tuple(queues), tuple(steps))
        self._write(lambda tx: claims.attend(tx, report), durable=False)

    def engines(self) -> list[EngineReport]:
        """The latest reports of all engines and pulling programs that run."""
        return self._read_queue(quotas.engines)

    def leave(self, engine: str) -> None:
        """Record that an engine has stopped."""
        self._write(lambda tx: claims.leave(tx, engine), durable=False)

    # --- blob places ---

    def blob_place(self, place: str) -> tuple[str, bool]:
        """The installation's id, and whether the marker of this place was ever written.

        An unknown place is added.
        """
        with self._reading(whole=True) as connection:
            row = connection.execute(sql("blob_place"), (place,)).fetchone()
        if row is None:
            self._write(
                lambda tx: tx.connection.execute(sql("add_blob_place"), (place, uuid4().hex))
            )
            return self.blob_place(place)
        return row[0], bool(row[1])

    def note_marked(self, place: str) -> None:
        """Record that the marker of a place was written."""
        self._write(lambda tx: tx.connection.execute(sql("note_marked"), (place,)))

    # --- usage ---

    def usage(
        self, customer: str | None = None, *, first: int = 0, last: int = 2**31
    ) -> list[Usage]:
        """The usage from one day since 1970 to another, by day and customer."""
        return self._read(reads.usage, customer, first, last)

    def add_up_usage(self) -> int:
        """Replace rows of the same customer and day by their sum; return how many rows."""

        def add_up(tx: Transaction) -> int:
            sums: dict[tuple[int, int], UsageRow] = {}
            rows = tx.connection.execute(sql("take_usage"), (MOST_SUMMED,)).fetchall()
            for row in map(UsageRow._make, rows):
                before = sums.get(row[:2])
                sums[row[:2]] = row if before is None else before.plus(row)
            tx.connection.executemany(sql("add_usage"), list(sums.values()))
            return len(rows)

        number = portion = self._write(add_up)
        while portion == MOST_SUMMED:
            portion = self._write(add_up)
            number += portion
        return number

    # --- decisions of people; `by` is the actor ---

    def cancel(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> Document:
        """Cancel a pending document."""
        self._write(lambda tx: actions.cancel_document(tx, id_, check), by=by)
        return self.document(id_)

    def retry(
        self,
        id_: str,
        *,
        password: str | None = None,
        by: str | None = None,
        check: DocumentCheck | None = None,
    ) -> Document:
        """Queue an ended document again; the password is kept until it ends."""
        self._write(lambda tx: actions.retry_document(tx, id_, password, check), by=by)
        return self.document(id_)

    def change(
        self,
        id_: str,
        changes: Mapping[str, Any],
        *,
        by: str | None = None,
        check: DocumentCheck | None = None,
    ) -> Document:
        """Change the urgency, metadata or reference of a document, as in `document_changes`."""
        self._write(
            lambda tx: change_document.change_document(tx, id_, changes, check), by=by, folds=True
        )
        return self.document(id_)

    def delete(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> list[str]:
        """Delete a document, after cancelling a pending one; return the keys of its texts.

        A deleted document does not change and is not checked. Its events stay, with its id.
        """
        return self._write(lambda tx: actions.delete_document(tx, id_, check), by=by)

    def add_customer(self, name: str, *, by: str | None = None, **settings: Any) -> bool:
        """Add a customer with these settings; False: it exists and does not change."""
        return self._write(lambda tx: actions.add_with_settings(tx, name, settings), by=by)

    def set_customer(self, name: str, *, by: str | None = None, **changes: Any) -> None:
        """Change some of the customer's settings, by the names of `CustomerSettings`."""
        self._write(lambda tx: actions.set_customer(tx, name, changes), by=by)

    def delete_customer(self, name: str, *, by: str | None = None) -> bool:
        """Delete a customer; False: it has documents. Its usage stays as numbers."""
        return self._write(lambda tx: actions.delete_customer(tx, name), by=by)

    def pause(self, name: str, *, by: str | None = None) -> None:
        """Let the customer's documents wait."""
        self._write(lambda tx: actions.pause_customer(tx, name, paused=True), by=by)

    def resume(self, name: str, *, by: str | None = None) -> None:
        """Let the customer's documents run again."""
        self._write(lambda tx: actions.pause_customer(tx, name, paused=False), by=by)

    def reset(self, name: str, *, by: str | None = None) -> None:
        """Forget the customer's count."""
        self._write(lambda tx: actions.reset_customer(tx, name), by=by)

    def add_key(
        self,
        id_: str,
        sha256: str,
        owner: KeyOwner,
        *,
        expires: NotBefore | None = None,
        by: str | None = None,
    ) -> Key:
        """Add a key; its customer must exist."""
        self._write(lambda tx: actions.add_key(tx, id_, sha256, owner, expires), by=by)
        return self.key(id_)

    def revoke_key(self, id_: str, *, by: str | None = None) -> Key:
        self._write(lambda tx: actions.revoke_key(tx, id_), by=by)
        return self.key(id_)

    def use_policy(self, name: PolicyName, *, by: str | None = None) -> Switched | None:
        """Place all pending documents by another policy; None: it is in force already."""

        def switch(connection: Connection) -> Switched | None:
            tx = self._transaction(connection)
            tx.actor = by
            return switch_policy.switch(tx, name)

        if self.policy() == name:  # as at nearly every start: no need to block writes
            return None
        return self._writer.run_alone(switch, durable=True, excludes_writes=True)

    def use_quotas(self, pipelines: Sequence[Pipeline]) -> None:
        """Set the quotas of these pipelines, as each engine and server does when it starts.

        If the settings of two processes differ, the last start wins.
        """

        def save(connection: Connection) -> list[str]:
            return quotas.save(self._transaction(connection), pipelines)

        with self._reading(whole=True) as connection:
            if not quotas.differs(connection, self._rules(), pipelines):
                return
        for change in self._writer.run_alone(save, durable=True):
            _log.warning("fairlead: %s", change)

    # --- transactions ---

    def _write(
        self,
        action: Callable[[Transaction], T],
        *,
        durable: bool = True,
        by: str | None = None,
        folds: bool = False,
    ) -> T:
        """One change in a transaction that others may share; `by` is the actor.

        `folds`: it adds events to the queue, which are folded now and then.
        """
        self.follow_settings()
        result = self._writer.run(partial(self._change, action, by), durable=durable)
        if folds:
            self._fold_now_and_then()
        return result

    def _change(
        self, action: Callable[[Transaction], T], by: str | None, connection: Connection
    ) -> T:
        tx = self._transaction(connection)
        tx.actor = by
        result = action(tx)
        tx.write()
        return result

    def _transaction(self, connection: Connection) -> Transaction:
        return Transaction(
            connection,
            self._rules(),
            partial(self._now, connection),
            partial(self._policy_of, connection),
            partial(self._snapshot, connection),
        )

    def _policy_of(self, connection: Connection) -> PolicyName:
        policy: PolicyName = connection.execute(sql("policy")).get
        return policy

    @contextmanager
    def _snapshot(self, connection: Connection) -> Iterator[Connection]:
        """A connection with one snapshot, during a transaction of this one."""
        yield connection

    def follow_settings(self) -> None:
        """Switch to the policy of the settings, once for each time they change.

        So two processes with different settings do not switch it back and forth.
        """
        policy = self._rules().policy
        if policy in (None, self._policy_set):
            return
        switched = self.use_policy(policy)
        self._policy_set = policy
        if switched is not None and switched.documents:
            _log.warning(
                "fairlead: the policy is now %s (was %s); documents placed anew: %s, "
                "of customers: %s",
                switched.after,
                switched.before,
                switched.documents,
                switched.customers,
            )

    # --- reads ---

    def _read(
        self,
        query: Callable[Concatenate[Connection, P], T],
        *values: P.args,
        **named: P.kwargs,
    ) -> T:
        with self._reading() as connection:
            return query(connection, *values, **named)

    def _read_whole(
        self,
        query: Callable[Concatenate[Connection, P], T],
        *values: P.args,
        **named: P.kwargs,
    ) -> T:
        """As `_read`, over all customers, also within `seen_by`."""
        with self._reading(whole=True) as connection:
            return query(connection, *values, **named)

    def document(self, id_: str) -> Document:
        return self._read(reads.document, self._rules(), id_)

    def stored_document(self, id_: str) -> StoredDocument:
        """The stored fields of a document that are not displayed."""
        return self._read(reads.stored_document, id_)

    def documents(
        self,
        *,
        customer: str | None = None,
        state: State | None = None,
        priority: int | None = None,
        pipeline: str | None = None,
        parent: str | None = None,
        id_prefix: str | None = None,
        name: str | None = None,
        reference: str | None = None,
        metadata: Mapping[str, str] | None = None,
        batch: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Document]:
        """Documents, newest first; `before` is the last id of the page before.

        `name` is a part of the name; the case of ASCII letters is ignored. `metadata` has the JSON
        texts of top-level keys, strings without their quotes.
        """
        return self._read(
            reads.documents,
            self._rules(),
            customer=customer,
            state=state,
            priority=priority,
            pipeline=pipeline,
            parent=parent,
            id_prefix=id_prefix,
            name=name,
            reference=reference,
            metadata=metadata or {},
            batch=batch,
            before=before,
            limit=limit,
        )

    def latest_checks(self, customer: str, limit: int) -> list[CheckedDocument]:
        """The checks of a customer's newest documents, newest first."""
        return self._read(reads.latest_checks, customer, limit)

    def batch(self, id_: str) -> StoredBatch:
        """A batch with its documents by state."""
        return self._read(batches.read_batch, id_)

    def place(self, id_: str) -> QueuePlace | None:
        """The documents before a document; None: it is not in the queue."""
        return self._read_queue(position.place, id_)

    def customer(self, name: str, *, among_others: bool = False) -> CustomerRecord:
        """A customer; `among_others`: including the accounts before it, under fair."""
        with self._reading() as connection:
            row = reads.customer_row(connection, name)
            self._see_all(connection)
            rules, now = self._rules(), self._now(connection)
            return reads.customer(connection, rules, now, row, among_others=among_others)

    def customers(self, names: Collection[str] | None = None) -> list[CustomerRecord]:
        """The customers of these names, or all, by name; unknown ones are left out."""
        with self._reading() as connection:
            selected = reads.customer_rows(connection, names)
            self._see_all(connection)
            ids = None if names is None else {row[0] for row in selected}
            return reads.customers(connection, self._rules(), self._now(connection), selected, ids)

    def events(
        self, after: int = 0, limit: int = 1000, *, customer: str | None = None
    ) -> list[Event]:
        """Events after the one of this number, oldest first; of one customer or of all."""
        return self._read(reads.events, after, limit, customer, self._last_event_to_read())

    def ends(
        self, after: int = 0, limit: int = 1000, *, customer: str | None = None
    ) -> list[tuple[int, Document]]:
        """Ended documents in order of completion, each with the number of that event.

        They follow the event `after`; of one customer or of all. No lower number will appear.
        """
        return self._read(reads.ends, after, limit, customer, self._last_event_to_read())

    def stored_results(self, ids: Sequence[str], roles: Sequence[str]) -> list[StoredResult]:
        """The results of these documents in these roles."""
        return self._read(reads.stored_results, ids, roles)

    def is_event(self, number: int) -> bool:
        """Whether an event may have had this number."""
        with self._reading(whole=True) as connection:
            return 0 <= number <= int(connection.execute(sql("last_event")).get)

    def events_of(self, document: str) -> list[Event]:
        """All events of one document, oldest first; none if the id is unknown."""
        return self._read(reads.events_of, document)

    def audit(self, before: int | None = None, limit: int = 100) -> list[Event]:
        """Decisions of people, newest first; `before` is the number of an event."""
        return self._read(reads.audit, before, limit)

    def key(self, id_: str) -> Key:
        return self._read_whole(reads.key, id_)

    def stored_key(self, id_: str) -> StoredKey:
        """The key of this id with the hash of its secret."""
        return self._read_whole(reads.stored_key, id_)

    def keys(self) -> list[Key]:
        """All keys, oldest first."""
        return self._read_whole(reads.keys)

    def deleted_customer(self, id_: str) -> str | None:
        """The customer of the deleted document of this id; None: it was not deleted."""
        return self._read(reads.deleted_customer, id_)

    def tallies(self) -> list[Tally]:
        """How many documents of each priority are in each state."""
        return self._read_whole(reads.tallies)

    def commits(self) -> tuple[int, int]:
        """How many commits this process has made, and for how many writes."""
        return self._writer.commits, self._writer.writes

    def last_event(self) -> int:
        """The number of the newest event; no lower one will still appear."""
        settled = self._last_event_to_read()
        if settled is not None:
            return settled
        with self._reading(whole=True) as connection:
            return int(connection.execute(sql("last_event")).get)

    def totals(self) -> Totals:
        """Numbers of documents over all customers."""
        return self._read_whole(reads.totals)

    def is_idle(self, pipelines: Sequence[str] | None = None) -> bool:
        """Whether nothing runs and nothing of these pipelines would run without help."""
        return self._read_queue(reads.is_idle, pipelines)

    def claimable(self, most: int) -> int:
        """About how many documents could start now, counted up to `most`."""
        return self._read_queue(reads.claimable, most)

    def known_documents(self, ids: Iterable[str]) -> set[str]:
        """Those of the ids that are documents."""
        return self._read_whole(reads.known_documents, ids)

    def original(self, id_: str) -> bytes | None:
        """The bytes of a short document, which the database stores; None: they are a blob."""
        return self._read(reads.original, id_)

    def short_texts(self, id_: str) -> ShortTexts | None:
        """The texts of a document that the database stores; None: they are blobs."""
        return self._read(reads.short_texts, id_)

    def results(self, id_: str) -> list[tuple[str, Content]]:
        """The results of a document, by role: text, markdown, data, file."""
        return self._read(reads.results, id_)

    def result_content(self, id_: str, role: str, name: str = "") -> bytes | None:
        """The bytes of a result that the database stores; None: they are a blob."""
        return self._read(reads.result_content, id_, role, name)

    def cause(self, id_: str) -> str | None:
        """Why a document failed, or its last attempt at a step did; for operators."""
        return self._read(reads.cause, id_)

    def asking_steps(self, least: int) -> list[AskingStep]:
        """The steps that have asked at least so often to be called again later for a document."""
        return self._read_whole(reads.asking_steps, least)

    def causes(self, ids: Sequence[str]) -> dict[str, str]:
        """The causes of the failures of these documents, by id; for operators."""
        return self._read(reads.causes, ids)

    def interim_keys(self) -> set[str]:
        """The keys of all blobs of documents between two steps, those of their parts included."""
        return self._read_whole(reads.interim_keys)

    def known_texts(self, ids: Iterable[str]) -> set[str]:
        """The keys of the texts that belong to these documents."""
        return self._read_whole(reads.known_texts, ids)

    def problems(self) -> list[str]:
        """Problems of the database, for the doctor."""
        with self._reading(whole=True) as connection:
            return self._damage(connection) + reads.problems(connection, self._rules())

    def policy(self) -> PolicyName:
        """The policy in force."""
        return self._read_whole(self._policy_of)

    def fairness(self) -> Fairness:
        return self._read_queue(reads.fairness)

    def pipelines(self) -> dict[str, PipelineCounts]:
        """Waiting, running and recently ended documents of each pipeline, and its quota's use."""
        return self._read_queue(pipeline_reads.pipelines)

    def outlook(self, id_: str) -> Outlook | None:
        """All from which the start of a document is forecast; None: it is not in the queue."""
        return self._read_queue(position.outlook, id_)

    def last_waiting(self, customer: str) -> list[str]:
        """The last waiting document of each queue of a customer; delayed ones are left out."""
        return self._read_queue(position.last_waiting, customer)

    def pipeline_state(self, name: str) -> PipelineState:
        """What prevents the documents of a pipeline, or of a queue of it, from starting."""
        return self._read_queue(quotas.state, name)

    def waiting_queues(self) -> set[str]:
        """The queues in which documents wait. It reads all that wait."""
        return self._read_whole(quotas.waiting_queues)

    def _last_event_to_read(self) -> int | None:
        """The number up to which all events are final; None: all are."""
        return None

    def _read_queue(
        self,
        query: Callable[Concatenate[Connection, Rules, float, P], T],
        *values: P.args,
        **named: P.kwargs,
    ) -> T:
        """Read the whole queue, by the rules in force and at this time."""
        with self._reading(whole=True) as connection:
            return query(connection, self._rules(), self._now(connection), *values, **named)
