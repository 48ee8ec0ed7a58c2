"""Everything a store does, for any database that speaks SQL."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from fairlead.change_feed import ChangeFeed
from fairlead.errors import DamagedData, ReadOnlyData, StoreRefused, TemporarilyUnavailable
from fairlead.model.customers import CustomerRecord, Fairness
from fairlead.model.documents import (
    Claim,
    Document,
    DocumentCheck,
    Event,
    Outcome,
    Progress,
    Saved,
    ShortTexts,
    StoredDocument,
    Submission,
    Switched,
    Tally,
    Totals,
)
from fairlead.model.explanations import QueuePlace
from fairlead.model.keys import Key, StoredKey
from fairlead.model.states import State
from fairlead.policy.fair import Clock
from fairlead.policy.forecast import Flow
from fairlead.policy.rules import PolicyName, Rules
from fairlead.storage.sql import accept as acceptance
from fairlead.storage.sql import actions, claims, fair_accounts, reads, switch_policy
from fairlead.storage.sql.connection import Connection
from fairlead.storage.sql.group_commit import Writer
from fairlead.storage.sql.outbox import Outbox
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction

T = TypeVar("T")
E = TypeVar("E")

_OUT_OF_ORDER = (DamagedData, TemporarilyUnavailable, ReadOnlyData, StoreRefused)
"""Errors that are no submission's. It may even be that all was accepted, and none could say so."""

_log = logging.getLogger(__name__)


class Store(ABC):
    """All methods may be called from any thread.

    `rules` gives the rules in force. They and the time are asked for inside each write, so that
    the order of the times is the order of the commits. A subclass brings its database.
    """

    changes: ChangeFeed

    def __init__(self, writer: Writer, *, rules: Callable[[], Rules]) -> None:
        self._writer = writer
        self._rules = rules
        self._asked_for: PolicyName | None = None
        self.outbox: Outbox = Outbox(self._write, self._reading)

    # --- what a database brings ---

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    def hurry(self) -> None:  # noqa: B027 (most cannot)
        """Wait for other processes only for a moment from now on: this one is about to stop.

        May be called anywhere, also by a signal.
        """

    @abstractmethod
    def now(self) -> float:
        """The time by the store's clock."""

    def seen_by(self, customer: str) -> AbstractContextManager[None]:  # noqa: ARG002 (see ports)
        """Let the questions asked within find nothing of other customers, if the store can.

        Those about the queue as a whole are excepted: places, numbers, the flow of work.
        """
        return nullcontext()

    @abstractmethod
    def only_one(self, duty: str) -> AbstractContextManager[bool]:
        """Whether this process may do what one process at a time should do, as long as it lasts.

        The duty of a process that died is free at once. Nothing that must happen only once may
        depend on it: a process that cannot be heard any more may still go on for a moment.
        """

    @abstractmethod
    def _reading(self, *, whole: bool = False) -> AbstractContextManager[Connection]:
        """A connection that nobody else uses meanwhile, and that sees one moment throughout.

        `whole`: it sees all customers, whoever asks.
        """

    @abstractmethod
    def _now(self, connection: Connection) -> float:
        """The time, in a transaction of this connection."""

    @abstractmethod
    def _damage(self, connection: Connection) -> list[str]:
        """What the database itself finds wrong with its files."""

    # --- acceptance ---

    def submit(self, submission: Submission) -> list[Document]:
        """Check and accept the documents in one step, or refuse them all."""
        return self._write(lambda tx: acceptance.accept(tx, submission))

    def submit_all(self, submissions: Sequence[Submission]) -> list[list[Document]]:
        """Accept many submissions in one transaction, or refuse them all."""
        return self._write(lambda tx: acceptance.accept_all(tx, submissions))

    def submit_each(self, submissions: Sequence[Submission]) -> list[list[Document] | Exception]:
        """Accept many submissions with one wait for the disk, each accepted or refused alone."""
        if not submissions:
            return []
        try:
            return self._write(lambda tx: acceptance.accept_each(tx, submissions))
        except _OUT_OF_ORDER as error:
            return [error] * len(submissions)
        except Exception as error:  # of one of them
            return [error] if len(submissions) == 1 else self._submit_alone(submissions)

    def _submit_alone(self, submissions: Sequence[Submission]) -> list[list[Document] | Exception]:
        """The same, where an error of one does not touch the others."""

        def alone(connection: Connection, submission: Submission) -> list[Document]:
            return self._act(connection, acceptance.accept, submission)

        return self._writer.run_each([partial(alone, submission=each) for each in submissions])

    # --- work ---

    def claim(self, worker: str) -> Claim | None:
        """The next document for a free worker; None: nothing may run now."""
        return next(iter(self.claim_for([worker])), None)

    def claim_for(self, workers: Sequence[str], ahead: Sequence[str] = ()) -> list[Claim]:
        """A document for each of the free workers, then some to lie ready for those `ahead`.

        A claim need not survive a power cut: nobody would be left to work on it. A lease that
        ended while this had to wait for others is left alone: its holder had to wait as well.
        """
        self._follow_the_settings()
        asked = self._writer.asked_at()
        return self._writer.run(lambda c: self._claims(c, workers, ahead, asked), durable=False)

    def _claims(
        self, connection: Connection, workers: Sequence[str], ahead: Sequence[str], asked: float
    ) -> list[Claim]:
        if not claims.may_find(connection, self._now(connection)):
            return []  # and nothing is written: who waits for a change is not woken by it
        return self._act(connection, claims.claim_all, workers, ahead, asked)

    def renew(self, held: Sequence[Claim]) -> list[Claim]:
        """Lengthen the leases; return the claims that are held no more."""
        return self._write(lambda tx: claims.renew(tx, held), durable=False)

    def lost(self, held: Sequence[Claim]) -> list[Claim]:
        """The claims that are held no more: cancelled, or rescued from this worker."""
        with self._reading(whole=True) as connection:
            query = sql("is_held")
            return [
                claim
                for claim in held
                if connection.execute(query, (claim.id, claim.fence)).get is None
            ]

    def progress(self, steps: Sequence[Progress]) -> None:
        """Record how far claims are; an old one leaves no trace."""
        self._write(lambda tx: claims.progress(tx, steps), durable=False)

    def finish(self, claim: Claim, outcome: Outcome) -> Saved:
        """Save what became of a claim; an old one changes nothing."""
        return self.finish_all([(claim, outcome)])[0]

    def finish_all(self, outcomes: Sequence[tuple[Claim, Outcome]]) -> list[Saved]:
        """Save many outcomes in one transaction."""
        return self._write(lambda tx: claims.settle_all(tx, outcomes))

    def release(self, held: Sequence[Claim]) -> list[Saved]:
        """Give back claims on which nothing was decided; the attempts do not count."""
        return self._write_each(lambda tx, each: claims.release(tx, each.id, each.fence), held)

    def release_from(self, workers: Sequence[str]) -> int:
        """Give back all that these workers hold, when they stop; the attempts do not count."""
        return self._write(lambda tx: claims.release_from(tx, workers))

    def lease_holders(self) -> list[str]:
        """The names of all workers that hold a claim."""
        with self._reading(whole=True) as connection:
            return [row[0] for row in connection.execute(sql("lease_holders"))]

    def rescue_from(self, worker: str) -> int:
        """Take back what a worker held that is known to be gone, before its leases end."""
        return self._write(lambda tx: claims.rescue_from(tx, worker))

    def attend(self, engine: str, workers: int) -> None:
        """Say that an engine is at work with so many workers; it holds as long as a lease."""
        self._write(lambda tx: claims.attend(tx, engine, workers), durable=False)

    def leave(self, engine: str) -> None:
        """Say that an engine has stopped."""
        self._write(lambda tx: claims.leave(tx, engine), durable=False)

    # --- decisions ---

    def cancel(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> Document:
        """Cancel a pending document."""
        self._write(lambda tx: actions.cancel(tx, id_, check), by=by)
        return self.document(id_)

    def retry(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> Document:
        """Queue a failed or cancelled document once more."""
        self._write(lambda tx: actions.retry(tx, id_, check), by=by)
        return self.document(id_)

    def add_customer(self, name: str, *, by: str | None = None, **settings: Any) -> bool:
        """Add a customer with these settings, in one step; False: it was there and stays so."""
        return self._write(lambda tx: actions.add(tx, name, settings), by=by)

    def set_customer(self, name: str, *, by: str | None = None, **changes: Any) -> None:
        """Change some of the customer's settings; the others stay as they are at that moment.

        The names are those of `CustomerSettings`.
        """
        self._write(lambda tx: actions.set_customer(tx, name, changes), by=by)

    def pause(self, name: str, *, by: str | None = None) -> None:
        """Let the customer's documents wait."""
        self._write(lambda tx: actions.pause(tx, name, paused=True), by=by)

    def resume(self, name: str, *, by: str | None = None) -> None:
        """Let the customer's documents run again."""
        self._write(lambda tx: actions.pause(tx, name, paused=False), by=by)

    def reset(self, name: str, *, by: str | None = None) -> None:
        """Forget the customer's count."""
        self._write(lambda tx: actions.reset(tx, name), by=by)

    def delete(
        self, id_: str, *, by: str | None = None, check: DocumentCheck | None = None
    ) -> list[str]:
        """Delete a document, a pending one after it was cancelled; the keys of its texts.

        One that was deleted before stays so, unchecked. Its events stay, with its id in them.
        """
        return self._write(lambda tx: actions.delete(tx, id_, check), by=by)

    def add_key(self, id_: str, sha256: str, customer: str | None, *, by: str | None = None) -> Key:
        """Add a key of a known customer, or of an operator."""
        self._write(lambda tx: actions.add_key(tx, id_, sha256, customer), by=by)
        return self.key(id_)

    def revoke_key(self, id_: str, *, by: str | None = None) -> Key:
        """Let a key open nothing any more."""
        self._write(lambda tx: actions.revoke_key(tx, id_), by=by)
        return self.key(id_)

    def use_policy(self, name: PolicyName) -> Switched | None:
        """Place all pending documents by another policy; None: it was in force."""
        return self._writer.run(lambda connection: switch_policy.switch(self._at(connection), name))

    # --- how changes are made ---

    def _write(
        self, action: Callable[[Transaction], T], *, durable: bool = True, by: str | None = None
    ) -> T:
        """One change in a transaction, which others may share; `by` is who decided it."""
        self._follow_the_settings()
        return self._writer.run(
            lambda connection: self._act(connection, action, by=by), durable=durable
        )

    def _write_each(
        self, action: Callable[[Transaction, E], T], things: Sequence[E], *, durable: bool = True
    ) -> list[T]:
        """One change after the other, all in one transaction."""
        self._follow_the_settings()
        return self._writer.run(
            lambda connection: [self._act(connection, action, each) for each in things],
            durable=durable,
        )

    def _act(
        self,
        connection: Connection,
        action: Callable[..., T],
        *things: object,
        by: str | None = None,
    ) -> T:
        tx = self._at(connection)
        tx.actor = by
        result = action(tx, *things)
        fair_accounts.rest(tx)
        return result

    def _at(self, connection: Connection) -> Transaction:
        return Transaction.at(connection, self._rules(), self._now(connection))

    def _follow_the_settings(self) -> None:
        """Switch the policy where the settings ask for one, once for each time they change.

        So two processes with different settings do not switch it to and fro.
        """
        wanted = self._rules().policy
        if wanted in (None, self._asked_for):
            return
        done = self.use_policy(wanted)
        self._asked_for = wanted
        if done is not None and done.documents:
            _log.warning(
                "fairlead: the policy is now %s (was %s); documents placed anew: %s, "
                "of customers: %s, with another priority: %s",
                *(done.after, done.before, done.documents, done.customers, done.moved),
            )

    # --- questions ---

    def document(self, id_: str) -> Document:
        """The document of this id."""
        with self._reading() as connection:
            return reads.document(connection, id_)

    def stored_document(self, id_: str) -> StoredDocument:
        """What storage keeps of a document beyond what is shown."""
        with self._reading() as connection:
            return reads.stored_document(connection, id_)

    def documents(
        self,
        *,
        customer: str | None = None,
        state: State | None = None,
        priority: int | None = None,
        parent: str | None = None,
        name: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Document]:
        """Documents, newest first; `before` is the id of the last one of the page before.

        `name` is a part of the name; ASCII letters may be large or small.
        """
        with self._reading() as connection:
            return reads.documents(
                connection,
                customer=customer,
                state=state,
                priority=priority,
                parent=parent,
                name=name,
                before=before,
                limit=limit,
            )

    def place(self, id_: str) -> QueuePlace | None:
        """What goes before a document; None where it is not in the queue."""
        with self._reading(whole=True) as connection:
            return reads.place(connection, id_)

    def customer(self, name: str) -> CustomerRecord:
        """The customer of this name."""
        with self._reading() as connection:
            return reads.customer(connection, name)

    def customers(self) -> list[CustomerRecord]:
        """All customers, by name."""
        with self._reading() as connection:
            return reads.customers(connection)

    def events(
        self, after: int = 0, limit: int = 1000, *, customer: str | None = None
    ) -> list[Event]:
        """Events after the one of this number, oldest first; of one customer, if asked."""
        with self._reading() as connection:
            return reads.events(connection, after, limit, customer)

    def events_of(self, document: str) -> list[Event]:
        """All events of one document, oldest first; none where the id is unknown."""
        with self._reading() as connection:
            return reads.events_of(connection, document)

    def audit(self, before: int | None = None, limit: int = 100) -> list[Event]:
        """What somebody decided, newest first; `before` is the number of an event."""
        with self._reading() as connection:
            return reads.audit(connection, before, limit)

    def key(self, id_: str) -> Key:
        """The key of this id."""
        with self._reading(whole=True) as connection:
            return reads.key(connection, id_)

    def stored_key(self, id_: str) -> StoredKey:
        """The key of this id with the hash of its secret."""
        with self._reading(whole=True) as connection:
            return reads.stored_key(connection, id_)

    def keys(self) -> list[Key]:
        """All keys, oldest first."""
        with self._reading(whole=True) as connection:
            return reads.keys(connection)

    def deleted_customer(self, id_: str) -> str | None:
        """Whose document of this id was deleted; None: none was."""
        with self._reading() as connection:
            return reads.deleted_customer(connection, id_)

    def tallies(self) -> list[Tally]:
        """How many documents of each priority are in each state."""
        with self._reading(whole=True) as connection:
            return reads.tallies(connection)

    def commits(self) -> tuple[int, int]:
        """How many commits this process has made, and for how many writes."""
        return self._writer.commits, self._writer.writes

    def last_event(self) -> int:
        """The number of the newest event."""
        with self._reading(whole=True) as connection:
            return int(connection.execute(sql("last_event")).get)

    def totals(self) -> Totals:
        """How much there is, over all customers."""
        with self._reading(whole=True) as connection:
            return reads.totals(connection)

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing would run without somebody's help."""
        with self._reading(whole=True) as connection:
            return not connection.execute(sql("runnable")).get

    def claimable(self, most: int) -> int:
        """About how many documents could be begun now; beyond `most` it does not count."""
        with self._reading() as connection:
            values = (self._now(connection), most)
            return min(most, int(connection.execute(sql("claimable"), values).get))

    def known_documents(self, ids: Iterable[str]) -> set[str]:
        """Those of the ids that are documents."""
        with self._reading(whole=True) as connection:
            return reads.known_documents(connection, ids)

    def original(self, id_: str) -> bytes | None:
        """The document as it was submitted, where the store keeps it itself; None: a file does."""
        with self._reading() as connection:
            content: bytes | None = connection.execute(sql("short_original"), (id_,)).get
            return content

    def short_texts(self, id_: str) -> ShortTexts | None:
        """The texts of a document that the store keeps itself; None: it keeps none."""
        with self._reading() as connection:
            found = connection.execute(sql("short_texts"), (id_,)).fetchone()
            return None if found is None else ShortTexts(*found)

    def known_texts(self, ids: Iterable[str]) -> set[str]:
        """The keys of the texts that belong to these documents."""
        with self._reading(whole=True) as connection:
            return reads.known_texts(connection, ids)

    def warnings(self) -> list[str]:
        """What could be better about the database; empty when nothing could."""
        return []

    def problems(self) -> list[str]:
        """What is wrong with the database, for the doctor; empty when all is well."""
        with self._reading(whole=True) as connection:
            damage = self._damage(connection)
            wrong = [row[0] for row in connection.execute(sql("miscounted_customers"))]
            accounts = [row[0] for row in connection.execute(sql("miscounted_accounts"))]
            line = connection.execute(sql("miscounted_line")).get
            tally = connection.execute(sql("miscounted_tallies")).get
            misplaced = connection.execute(sql("misplaced_originals")).get
        return [
            *damage,
            *(
                f"the numbers kept for customer {name!r} differ from its documents"
                for name in wrong
            ),
            *(
                f"the numbers kept for account {name!r} differ from its customers"
                for name in accounts
            ),
            *(["the numbers kept for the line differ from its customers"] if line else []),
            *(["the numbers kept for states and priorities differ"] if tally else []),
            *(
                [f"{misplaced:,} originals have no document, or another length"]
                if misplaced
                else []
            ),
        ]

    def policy(self) -> PolicyName:
        """The policy in force."""
        with self._reading(whole=True) as connection:
            return self._read(connection).policy

    def clock(self) -> Clock:
        """The fair rule's virtual clock, brought to now."""
        with self._reading(whole=True) as connection:
            return self._read(connection).clock

    def fairness(self) -> Fairness:
        """How fair the queue is, as numbers."""
        with self._reading(whole=True) as connection:
            return reads.fairness(self._read(connection))

    def flow(self) -> Flow:
        """The work of late, from which starts are forecast."""
        with self._reading(whole=True) as connection:
            return reads.flow(self._read(connection))

    def _read(self, connection: Connection) -> Transaction:
        return Transaction.read(connection, self._rules(), self._now(connection))
