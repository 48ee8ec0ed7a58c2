"""Documents and what happens to them: submissions, claims, outcomes, events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from fairlead.model.json import Record, Time
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.model.states import State
from fairlead.model.submissions import NotBefore

if TYPE_CHECKING:
    from fairlead.model.results import Content, Interim


class Sniff(NamedTuple):
    """What the first bytes of a document tell without parsing: its shape, and maybe its pages."""

    shape: str = "other"
    pages: int | None = None


class NewDocument(NamedTuple):
    """A document that asks to be accepted. Its bytes are safely on disk; short ones come along."""

    id: str
    name: str
    size: int
    sha256: str
    urgent: bool = False
    look: Sniff = Sniff()
    password: str | None = None
    content: bytes | None = None
    pipeline: str = DEFAULT_PIPELINE
    metadata: Mapping[str, Any] = {}
    reference: str | None = None
    not_before: NotBefore | None = None
    batch: str | None = None


class Submission(NamedTuple):
    """Documents of one customer that are accepted or refused together.

    With an idempotency key, `fingerprint` tells one body from another; `sender` is the API key
    of somebody who submits for many customers. `new_batch` is the id of a batch to be made,
    `batch` that of one to which the documents are added.
    """

    customer: str
    documents: tuple[NewDocument, ...]
    strict: bool = False
    key: str | None = None
    fingerprint: str = ""
    sender: str | None = None
    batch: str | None = None
    new_batch: str | None = None


class ResultFile(Record, frozen=True):
    """A file of a document's result."""

    name: str
    media_type: str
    size: int
    sha256: str


class Document(Record, frozen=True):
    """A document.

    `pipeline` names the steps that process it; `metadata` and `reference` are the caller's own.
    `parent` is the id of the document that it was a part of. `estimate` is how many seconds of work
    were expected when it was accepted, `seconds` how many it took, in the attempt that ended it.
    `step` is the one that runs, or that failed last; `step_attempt` is how many of its attempts are
    used, one under way included. `files` are those of the result.
    """

    id: str
    customer: str
    name: str
    size: int
    sha256: str
    kind: str | None
    state: State
    priority: int
    count: int
    policy: str
    urgent: bool
    submitted_at: Time
    started_at: Time | None = None
    finished_at: Time | None = None
    estimate: float = 0.0
    seconds: float | None = None
    attempts: int = 0
    error: str | None = None
    detail: str | None = None
    pipeline: str = DEFAULT_PIPELINE
    metadata: dict[str, Any] = field(default_factory=dict)
    reference: str | None = None
    not_before: Time | None = None
    batch: str | None = None
    parent: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    step: str | None = None
    step_attempt: int | None = None
    files: tuple[ResultFile, ...] = ()


class EndedDocument(Document, frozen=True, kw_only=True):
    """A document that has ended, in order of completion.

    Results that come after this one are asked for by its `cursor`. `text`, `markdown` and `data`
    are there where they were asked for and the document has them.
    """

    cursor: str
    text: str | None = None
    markdown: str | None = None
    data: Any = None


RESULT_PARTS = ("text", "markdown", "data")
"""The contents that a listing of results may include."""


DocumentCheck = Callable[[Document], None]
"""Looks at a document in the transaction that is about to change it; raises to prevent that."""


class Documents(Record, frozen=True):
    """Several documents of one request, and the batch that they form."""

    documents: list[Document]
    batch: str | None = None


class Page(Record, frozen=True):
    """Documents, newest first. `next` is the cursor of the next page; null: this is the last."""

    documents: list[Document]
    next: str | None


class Text(Record, frozen=True):
    """A document's text with what was found in the document."""

    id: str
    kind: str | None
    facts: dict[str, Any]
    text: str


class StoredDocument(Struct, frozen=True):
    """What storage keeps of a document beyond what is shown.

    A text that has a hash and no key is in the store itself. Without a `markdown_sha256`, the text
    is its own Markdown. `retry_at` is the time of its next attempt, or before which it does not
    start, where it waits for one; `depth` is how far the document is from the submitted one;
    `queue` is where it waits, or waited last.
    """

    text_key: str | None
    text_sha256: str | None
    markdown_key: str | None
    markdown_sha256: str | None
    retry_at: float | None
    depth: int
    queue: str


class StoredResult(NamedTuple):
    """One result of a document: the bytes, or the key of a blob."""

    document: str
    role: str
    key: str | None
    sha256: str | None
    content: bytes | None


class Totals(NamedTuple):
    """How much there is, over all customers."""

    waiting: int
    processing: int
    customers: int


class Claim(NamedTuple):
    """One attempt at a document, held by one worker until its lease ends.

    The fence is the number of its lease: finishing with an old one changes nothing. `number` is the
    document's arrival number.
    `broke_before`: an earlier attempt broke, other than by the end of its whole worker.
    `suspect`: an earlier attempt broke, or was lost with its worker; it is to be read alone.
    `content`: the document itself, where the store keeps it; else it is a file.
    `pipeline` is the queue in which it waited, `interim` what steps found in earlier claims, as an
    encoded `Interim`.
    `has_result`: it was done before; the new result replaces that one.
    """

    id: str
    fence: int
    worker: str
    customer: str
    name: str
    size: int
    sha256: str
    priority: int
    submitted_at: float
    started_at: float
    attempts: int
    depth: int = 0
    password: str | None = None
    broke_before: bool = False
    suspect: bool = False
    content: bytes | None = None
    number: int = 0
    pipeline: str = DEFAULT_PIPELINE
    metadata: Mapping[str, Any] = {}
    interim: bytes | None = None
    has_result: bool = False

    def __hash__(self) -> int:
        """Of what names a claim: its metadata has no hash."""
        return hash((self.number, self.fence))


class Progress(NamedTuple):
    """How far the work on a claim is: pages read, of so many."""

    claim: Claim
    pages_done: int
    pages: int


class Tally(NamedTuple):
    """How many documents of one priority are in one state."""

    state: str
    priority: int
    documents: int


class ShortTexts(NamedTuple):
    """A document's texts, encoded, where they are short enough for the store to keep them."""

    text: bytes | None
    markdown: bytes | None = None


class Done(NamedTuple):
    """The document was processed. Its contents come along, or are on disk under their keys.

    Without a `text_sha256` there is no text; without a `markdown_sha256`, the text is its own
    Markdown. `seconds` is the work of this claim, `work` that of all claims, if it differs.
    """

    kind: str | None
    facts: Mapping[str, Any]
    text_key: str | None
    text_sha256: str | None
    seconds: float | None = None
    markdown_key: str | None = None
    markdown_sha256: str | None = None
    parts: tuple[NewDocument, ...] = ()
    short: ShortTexts | None = None
    data: Content | None = None
    files: tuple[Content, ...] = ()
    work: float | None = None


class Failed(NamedTuple):
    """The document cannot be processed; trying again would not help. Operators see the `cause`.

    `step` is the one that failed, at its attempt of this number.
    """

    code: str
    detail: str
    kind: str | None = None
    seconds: float | None = None
    cause: str | None = None
    step: str | None = None
    step_attempt: int | None = None


WORKER_LOST = "worker-lost"
"""The code of an attempt that somebody else ended: it says nothing about the document."""


class Broken(NamedTuple):
    """The attempt broke (a crash, a limit): try again while attempts are left."""

    code: str
    detail: str
    seconds: float | None = None
    step: str | None = None
    step_attempt: int | None = None


class Delayed(NamedTuple):
    """A step decided to be tried again, in so many seconds; `code`: because it failed."""

    delay: float
    interim: Interim
    code: str | None = None
    detail: str | None = None
    seconds: float | None = None


class Moved(NamedTuple):
    """The steps of one claim are done, and the document waits in another queue for the next ones.

    It keeps its place, and the claim does not count as an attempt.
    """

    queue: str
    interim: Interim
    seconds: float | None = None


Outcome = Done | Failed | Broken | Delayed | Moved


class Switched(Record, frozen=True):
    """What a switch of the policy did: how many documents were placed anew, of how many customers.

    They keep their priorities.
    """

    before: str
    after: str
    documents: int
    customers: int


class PolicyInForce(Record, frozen=True):
    """The policy in force: `classic` or `fair`."""

    policy: str


class Saved(StrEnum):
    """What became of an outcome."""

    SAVED = "saved"
    STALE = "stale"


class EventKind(StrEnum):
    """One name for each thing that can happen."""

    __hash__ = str.__hash__  # an enumeration's own is Python, and events are counted by kind

    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    PROGRESS = "progress"
    DONE = "done"
    FAILED = "failed"
    REQUEUED = "retried"
    RELEASED = "released"
    RESCUED = "rescued"
    CANCELLED = "cancelled"
    RETRIED = "again"
    DELETED = "deleted"
    CHANGED = "changed"
    BATCH_DONE = "batch-done"
    CUSTOMER_ADDED = "customer-added"
    CUSTOMER_SET = "customer-set"
    CUSTOMER_PAUSED = "customer-paused"
    CUSTOMER_RESUMED = "customer-resumed"
    CUSTOMER_RESET = "customer-reset"
    CUSTOMER_DELETED = "customer-deleted"
    KEY_ADDED = "key-added"
    KEY_REVOKED = "key-revoked"
    POLICY_SWITCHED = "policy-switched"
    BOUND_BROKEN = "bound-broken"
    WEBHOOK_ADDED = "webhook-added"
    WEBHOOK_SET = "webhook-set"
    WEBHOOK_REMOVED = "webhook-removed"
    WEBHOOK_DISABLED = "webhook-disabled"


class Event(Record, frozen=True):
    """One line of the append-only record. No customer: it is about the whole installation.

    `actor` is who decided it: the id of a key, or a word; null where nobody did. `reference` and
    `metadata` are those of the document, as they are now; of a deleted one, there are none.
    """

    seq: int
    at: Time
    kind: EventKind
    customer: str | None
    document: str | None
    data: dict[str, Any]
    actor: str | None = None
    reference: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class Audit(Record, frozen=True):
    """Decisions, newest first. `next` is the cursor of the next page."""

    entries: list[Event]
    next: int | None
