"""What the house expects of a store and of files, whichever they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fairlead.model.access_keys import Key, Tally
from fairlead.model.documents import (
    Claim,
    Customer,
    Document,
    Event,
    Outcome,
    Place,
    Progress,
    Saved,
    ShortTexts,
    Submission,
    Switched,
    Totals,
)
from fairlead.model.states import State
from fairlead.model.webhooks import Delivery, NewWebhook, Sending, Webhook, WebhookResponse
from fairlead.policy.fair import Clock
from fairlead.policy.fairness import Fairness
from fairlead.policy.forecast import Flow
from fairlead.policy.rules import PolicyName

HEAD_BYTES = 4096
"""How many of a file's first bytes are kept at hand when it is stored."""
SHORT_BYTES = 65_536
"""Up to which length a document is kept in the store; a longer one is a file."""
SHORT_TOGETHER = 1 << 24
"""How many bytes of short documents go into one commit; beyond that, they are files too."""


Check = Callable[[Document], None]
"""Looks at a document in the step that is about to change it; raises where it must stay so."""
OnPlaced = Callable[[list[list[Document] | Exception]], None]
"""Hears what documents will be, before anything is safe: for what can be prepared meanwhile."""


class Stored(NamedTuple):
    """A file that is safely on disk, or the `content` of a short one for the store to keep.

    `head` are its first bytes.
    """

    key: str
    size: int
    sha256: str
    head: bytes = b""
    content: bytes | None = None


class Incoming(Protocol):
    """A file that comes in pieces. It is nothing until `keep_each` or the store has kept it."""

    @property
    def key(self) -> str:
        """Its key."""
        ...

    @property
    def size(self) -> int:
        """How many bytes have come."""
        ...

    @property
    def is_short(self) -> bool:
        """Whether the store may keep it, as far as it has come."""
        ...

    def add(self, chunk: bytes) -> bool:
        """Take some more bytes, without waiting; True: call `flush` before there are more."""
        ...

    def flush(self) -> None:
        """Write what has come; may wait for the disk. From then on it is a file, short or not."""
        ...

    def short(self) -> Stored | None:
        """All that has come, for the store to keep, handed over once.

        None: it is long, or was written already.
        """
        ...

    def discard(self) -> None:
        """Leave nothing behind; may be called at any time and again."""
        ...


class Files(Protocol):
    """Bytes by key. `is_far`: they are kept by another machine, which may take its time."""

    is_far: bool

    def begin(self, key: str) -> Incoming:
        """A new file, of which nothing has come yet."""
        ...

    def keep_each(self, groups: Sequence[Sequence[Incoming]]) -> list[list[Stored] | Exception]:
        """Make files safe with few waits for the disk; each group is kept or refused as a whole."""
        ...

    def put_all(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Store bytes by their keys: all or, when one cannot be stored, none of them."""
        ...

    def path(self, key: str) -> Path:
        """Where the file of this key lies."""
        ...

    def read(self, key: str, sha256: str) -> bytes:
        """The file's bytes, after a check of its SHA-256."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; those that are not there stay so."""
        ...

    def older_than(self, moment: float) -> Iterator[list[str]]:
        """Keys of files last written before `moment`, in portions."""
        ...

    def sweep_incoming(self, moment: float) -> int:
        """Remove half-written files that a crash left before `moment`; return how many."""
        ...


class Outbox(Protocol):
    """Webhooks and their deliveries, which are made in the transactions of what they tell."""

    def add(self, new: NewWebhook, *, by: str | None = None) -> Webhook:
        """Keep a webhook; it is told of what happens from now on."""
        ...

    def webhook(self, id_: str) -> Webhook:
        """The webhook of this id."""
        ...

    def webhooks(self, customer: str | None = None) -> list[Webhook]:
        """All webhooks, or those of a customer, oldest first."""
        ...

    def set(
        self,
        id_: str,
        *,
        url: str | None = None,
        kinds: tuple[str, ...] | None = None,
        enabled: bool | None = None,
        by: str | None = None,
    ) -> Webhook:
        """Change a webhook; None: as it is. Enabling it forgets its failures."""
        ...

    def remove(self, id_: str, *, by: str | None = None) -> None:
        """Forget a webhook and its deliveries; one that is not there stays so."""
        ...

    def test(self, id_: str) -> Delivery:
        """Make a delivery that tells of nothing, due now."""
        ...

    def resend(self, id_: str) -> Delivery:
        """Make a delivery due now, with all its attempts and under its old id.

        Not where its webhook is disabled: it would wait without a word.
        """
        ...

    def delivery(self, id_: str) -> Delivery:
        """The delivery of this id."""
        ...

    def deliveries(
        self, webhook: str, *, before: str | None = None, limit: int = 100
    ) -> list[Delivery]:
        """Deliveries of a webhook, newest first; `before` is the last id of the page before."""
        ...

    def next_at(self) -> float | None:
        """When the next attempt is due, or the claim of one ends; None: nothing is to be sent."""
        ...

    def claim(
        self, *, webhooks: Collection[str] = (), customers: Collection[str] = ()
    ) -> Sending | None:
        """The next attempt that is due, but for those of these webhooks and customers."""
        ...

    def settle(self, sending: Sending, answer: WebhookResponse, *, jitter: float) -> Saved:
        """Save what an attempt came to; an old one changes nothing."""
        ...

    def forget(self, before: float) -> int:
        """Remove some of the deliveries settled before a moment; return how many."""
        ...


class Store(Protocol):
    """The truth. Every store passes the same suite: tests/storage/."""

    outbox: Outbox

    def close(self) -> None:
        """Let go of the database."""
        ...

    def hurry(self) -> None:
        """Wait for other processes only for a moment from now on: this one is about to stop.

        May be called anywhere, also by a signal.
        """
        ...

    def submit(self, submission: Submission) -> list[Document]:
        """Check and accept the documents in one step, or refuse them all."""
        ...

    def submit_all(self, submissions: Sequence[Submission]) -> list[list[Document]]:
        """Accept many submissions in one transaction, or refuse them all."""
        ...

    def submit_each(
        self, submissions: Sequence[Submission], on_placed: OnPlaced | None = None
    ) -> list[list[Document] | Exception]:
        """Accept many submissions with one wait for the disk, each accepted or refused alone.

        `on_placed` hears what the answers will be before anything is safe; should it come to
        nothing, the answers are others.
        """
        ...

    def claim(self, worker: str) -> Claim | None:
        """The next document for a free worker; None: nothing may run now."""
        ...

    def claim_for(self, workers: Sequence[str], ahead: Sequence[str] = ()) -> list[Claim]:
        """A document for each of the free workers, then some to lie ready for those `ahead`.

        While there are any; what lies ready ends before the first suspect, which is to be begun
        at once. If its worker is lost, an attempt at what lay ready does not count.
        """
        ...

    def renew(self, held: Sequence[Claim]) -> list[Claim]:
        """Lengthen the leases; return the claims that are held no more."""
        ...

    def lost(self, held: Sequence[Claim]) -> list[Claim]:
        """The claims that are held no more: cancelled, or rescued from this worker."""
        ...

    def progress(self, steps: Sequence[Progress]) -> None:
        """Record how far claims are; an old one leaves no trace."""
        ...

    def finish(self, claim: Claim, outcome: Outcome) -> Saved:
        """Save what became of a claim; an old one changes nothing."""
        ...

    def finish_all(self, outcomes: Sequence[tuple[Claim, Outcome]]) -> list[Saved]:
        """Save many outcomes in one transaction."""
        ...

    def release(self, held: Sequence[Claim]) -> list[Saved]:
        """Give back claims on which nothing was decided; the attempts do not count."""
        ...

    def release_from(self, workers: Sequence[str]) -> int:
        """Give back all that these workers hold, when they stop; the attempts do not count."""
        ...

    def lease_holders(self) -> list[str]:
        """The names of all workers that hold a claim."""
        ...

    def rescue_from(self, worker: str) -> int:
        """Take back what a worker held that is known to be gone, before its leases end."""
        ...

    def attend(self, engine: str, workers: int) -> None:
        """Say that an engine is at work with so many workers; it holds as long as a lease."""
        ...

    def leave(self, engine: str) -> None:
        """Say that an engine has stopped."""
        ...

    def cancel(self, id_: str, *, by: str | None = None, check: Check | None = None) -> Document:
        """Cancel a pending document."""
        ...

    def retry(self, id_: str, *, by: str | None = None, check: Check | None = None) -> Document:
        """Queue a failed or cancelled document once more."""
        ...

    def add_customer(self, name: str, *, by: str | None = None, **settings: Any) -> bool:
        """Add a customer with these settings, in one step; False: it was there and stays so."""
        ...

    def set_customer(self, name: str, *, by: str | None = None, **changes: Any) -> None:
        """Change some of the customer's settings; the others stay as they are at that moment.

        The names are those of `CustomerSettings`.
        """
        ...

    def pause(self, name: str, *, by: str | None = None) -> None:
        """Let the customer's documents wait."""
        ...

    def resume(self, name: str, *, by: str | None = None) -> None:
        """Let the customer's documents run again."""
        ...

    def reset(self, name: str, *, by: str | None = None) -> None:
        """Forget the customer's count."""
        ...

    def delete(self, id_: str, *, by: str | None = None, check: Check | None = None) -> list[str]:
        """Delete a document, a pending one after it was cancelled; the keys of its texts.

        One that was deleted before stays so, unchecked. Its events stay, with its id in them.
        """
        ...

    def add_key(self, id_: str, sha256: str, customer: str | None, *, by: str | None = None) -> Key:
        """Add a key of a known customer, or of an operator."""
        ...

    def revoke_key(self, id_: str, *, by: str | None = None) -> Key:
        """Let a key open nothing any more."""
        ...

    def key(self, id_: str) -> Key:
        """The key of this id."""
        ...

    def keys(self) -> list[Key]:
        """All keys, oldest first."""
        ...

    def audit(self, before: int | None = None, limit: int = 100) -> list[Event]:
        """What somebody decided, newest first; `before` is the number of an event."""
        ...

    def deleted_customer(self, id_: str) -> str | None:
        """Whose document of this id was deleted; None: none was."""
        ...

    def tallies(self) -> list[Tally]:
        """How many documents of each priority are in each state."""
        ...

    def commits(self) -> tuple[int, int]:
        """How many commits this process has made, and for how many writes."""
        ...

    def use_policy(self, name: PolicyName) -> Switched | None:
        """Place all pending documents by another policy; None: it was in force."""
        ...

    def policy(self) -> PolicyName:
        """The policy in force."""
        ...

    def fairness(self) -> Fairness:
        """How fair the queue is, as numbers."""
        ...

    def flow(self) -> Flow:
        """The work of late, from which starts are forecast."""
        ...

    def clock(self) -> Clock:
        """The fair rule's virtual clock, brought to now."""
        ...

    def document(self, id_: str) -> Document:
        """The document of this id."""
        ...

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
        ...

    def place(self, id_: str) -> Place | None:
        """What goes before a document; None where it is not in the queue."""
        ...

    def customer(self, name: str) -> Customer:
        """The customer of this name."""
        ...

    def customers(self) -> list[Customer]:
        """All customers, by name."""
        ...

    def events(
        self, after: int = 0, limit: int = 1000, *, customer: str | None = None
    ) -> list[Event]:
        """Events after the one of this number, oldest first; of one customer, if asked."""
        ...

    def events_of(self, document: str) -> list[Event]:
        """All events of one document, oldest first; none where the id is unknown."""
        ...

    def last_event(self) -> int:
        """The number of the newest event."""
        ...

    def totals(self) -> Totals:
        """How much there is, over all customers."""
        ...

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing would run without somebody's help."""
        ...

    def version(self) -> int:
        """A number that changes when anything was committed, by any process."""
        ...

    def claimable(self, most: int) -> int:
        """About how many documents could be begun now; beyond `most` it does not count."""
        ...

    def only_one(self, duty: str) -> AbstractContextManager[bool]:
        """Whether this process may do what one process at a time should do, as long as it lasts.

        The duty of a process that died is free at once. Nothing that must happen only once may
        depend on it: a process that cannot be heard any more may still go on for a moment.
        """
        ...

    def watch(self, bell: Callable[[], None]) -> float:
        """Ring a bell after commits, in any thread, if the store can.

        Returns for how many seconds to wait at most before the version is looked at anyway.
        """
        ...

    def unwatch(self, bell: Callable[[], None]) -> None:
        """Ring a bell no more."""
        ...

    def now(self) -> float:
        """The time by the store's clock."""
        ...

    def seen_by(self, customer: str) -> AbstractContextManager[None]:
        """Let the questions asked within find nothing of other customers, if the store can.

        Those about the queue as a whole are excepted: places, numbers, the flow of work.
        """
        ...

    def known_documents(self, ids: Iterable[str]) -> set[str]:
        """Those of the ids that are documents."""
        ...

    def original(self, id_: str) -> bytes | None:
        """The document as it was submitted, where the store keeps it itself; None: a file does."""
        ...

    def short_texts(self, id_: str) -> ShortTexts | None:
        """The texts of a document that the store keeps itself; None: it keeps none."""
        ...

    def known_texts(self, ids: Iterable[str]) -> set[str]:
        """The keys of the texts that belong to these documents."""
        ...

    def warnings(self) -> list[str]:
        """What could be better about the database; empty when nothing could."""
        ...

    def problems(self) -> list[str]:
        """What is wrong with the database; empty when all is well."""
        ...
