"""Documents, and their submissions, claims, outcomes and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from msgspec import Struct, field

from fairlead.model.json import Record, Time
from fairlead.model.notebook import fields_html
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.model.states import State
from fairlead.model.submissions import NotBefore

if TYPE_CHECKING:
    from fairlead.model.results import Content, Interim


class Sniff(NamedTuple):
    """The shape of a document and maybe its number of pages, guessed from its first bytes."""

    shape: str = "other"
    pages: int | None = None


class NewDocument(NamedTuple):
    """A document to be accepted. Its bytes are durable on disk, or in `content` if it is short."""

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

    With an idempotency key, `fingerprint` identifies the body; `sender` is the id of an API key
    that submits for many customers. `access_key` is the id of the request's API key, which must be
    valid when the documents are accepted. `new_batch` is the id of a batch to make, `batch` that of
    one to which the documents are added.
    """

    customer: str
    documents: tuple[NewDocument, ...]
    strict: bool = False
    key: str | None = None
    fingerprint: str = ""
    sender: str | None = None
    batch: str | None = None
    new_batch: str | None = None
    access_key: str | None = None


class ResultFile(Record, frozen=True):
    """A file of a document's result."""

    name: str
    media_type: str
    size: int
    sha256: str

    COLUMNS: ClassVar = ("name", "media_type", "size", "sha256")


class Document(Record, frozen=True):
    """A document.

    `pipeline` names the steps that process it; `metadata` and `reference` are the caller's own.
    `parent` is the id of the document that contained it, `parent_names` are the names of all
    documents around it, outermost first. `parts` is the number of documents that stem from it, at
    all depths; `parts_done` says how many of them have ended. `estimate` is the work in seconds
    that was expected at acceptance, `seconds` the work of the attempt that ended it. `step` is the
    one that runs, or that failed last; `step_attempt` is its number of attempts, including a
    running one. `files` are those of the result.
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
    parent_names: tuple[str, ...] = ()
    parts: int = 0
    parts_done: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    step: str | None = None
    step_attempt: int | None = None
    files: tuple[ResultFile, ...] = ()

    COLUMNS: ClassVar = ("id", "customer", "name", "state", "priority", "submitted_at", "error")

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind} {self.id} {self.name!r} of {self.customer!r}: {self._state_words()}>"

    def _state_words(self) -> str:
        match self.state:
            case State.WAITING | State.PROCESSING:
                return f"{self.state}, priority {self.priority}, count {self.count}"
            case State.DONE if self.seconds is not None:
                return f"done in {self.seconds:.3g} s"
            case State.FAILED:
                return f"failed, {self.error}"
        return self.state

    def _repr_html_(self) -> str:
        fields = {name: getattr(self, name) for name in Document.__struct_fields__}
        return fields_html(f"Document {self.id}", fields)


def full_name(document: Document) -> str:
    """The name of a document as lists show it, such as `mail.eml › items.csv` for an attachment."""
    return " › ".join((*document.parent_names, document.name))


class EndedDocument(Document, frozen=True, kw_only=True):
    """A document that has ended, in order of completion.

    Pass its `cursor` to get the results after it. `text`, `markdown` and `data` are null unless
    they were requested and the document has them.
    """

    cursor: str
    text: str | None = None
    markdown: str | None = None
    data: Any = None


RESULT_PARTS = ("text", "markdown", "data")
"""The contents that a listing of results may include."""


DocumentCheck = Callable[[Document], None]
"""Checks a document in the transaction that changes it; raises to prevent the change."""


class Documents(Record, frozen=True):
    """The documents of one request, and the batch that they form."""

    documents: list[Document]
    batch: str | None = None


class Page(Record, frozen=True):
    """Documents, newest first. `next` is the cursor of the next page; null: this is the last."""

    documents: list[Document]
    next: str | None


class Text(Record, frozen=True):
    """A document's text and facts."""

    id: str
    kind: str | None
    facts: dict[str, Any]
    text: str


class StoredDocument(Struct, frozen=True):
    """The stored fields of a document that its JSON lacks.

    A text that has a hash and no key is in the store itself. Without a `markdown_sha256`, the text
    is its own Markdown. `retry_at` is the earliest time of the next attempt or start, if it waits
    for one. `depth` is the number of documents around it. `queue` is where it waits, or waited
    last. `calls` is how often its step has asked to be called again later.
    """

    text_key: str | None
    text_sha256: str | None
    markdown_key: str | None
    markdown_sha256: str | None
    retry_at: float | None
    depth: int
    queue: str
    calls: int


class StoredResult(NamedTuple):
    """One result of a document: the bytes, or the key of a blob."""

    document: str
    role: str
    key: str | None
    sha256: str | None
    content: bytes | None


class Totals(NamedTuple):
    """The numbers of documents and customers."""

    waiting: int
    processing: int
    customers: int


class Claim(NamedTuple):
    """One attempt at a document, by one worker, until its lease ends.

    The `fence` is the number of the claim: finishing with an old one changes nothing. `number` is
    the document's arrival number.
    `broke_before`: an earlier attempt broke, other than by the end of its whole worker.
    `suspect`: an earlier attempt broke or was lost with its worker; read the document alone.
    `content` is the document itself, if the store has it; else it is a file.
    `pipeline` is the queue in which it waited, `interim` the encoded `Interim` of earlier claims.
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
        """The hash of the identifying fields, as metadata has no hash."""
        return hash((self.number, self.fence))


class CheckedDocument(Struct, frozen=True):
    """The check of one document: when, and its outcome."""

    submitted_at: float
    count: int
    priority: int


class JobEnd(NamedTuple):
    """Who ended a pulled job, and the fingerprint of what ended it: it may be sent again."""

    owner: str
    fingerprint: str


class Progress(NamedTuple):
    """The progress of a claim, in pages."""

    claim: Claim
    pages_done: int
    pages: int


class Tally(NamedTuple):
    """The number of documents of one priority in one state."""

    state: str
    priority: int
    documents: int


class ShortTexts(NamedTuple):
    """The encoded texts of a document that are short enough for the store."""

    text: bytes | None
    markdown: bytes | None = None


class Done(NamedTuple):
    """The document was processed. Its contents are in this record, or blobs under their keys.

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
    """The document cannot be processed; a retry would not help. Operators see the `cause`.

    `step` is the one that failed, `step_attempt` the number of its attempt.
    """

    code: str
    detail: str
    kind: str | None = None
    seconds: float | None = None
    cause: str | None = None
    step: str | None = None
    step_attempt: int | None = None


WORKER_LOST = "worker-lost"
"""The code of an attempt whose worker was lost: it says nothing about the document."""


class Broken(NamedTuple):
    """The attempt broke (a crash, a limit); the document is requeued while attempts are left."""

    code: str
    detail: str
    seconds: float | None = None
    step: str | None = None
    step_attempt: int | None = None


class Delayed(NamedTuple):
    """A step asked to be retried after a delay in seconds; with `code`, because it failed."""

    delay: float
    interim: Interim
    code: str | None = None
    detail: str | None = None
    seconds: float | None = None


class Moved(NamedTuple):
    """The steps of one claim are done; the document now waits in the queue of the next ones.

    It keeps its place, and the claim does not count as an attempt.
    """

    queue: str
    interim: Interim
    seconds: float | None = None


Outcome = Done | Failed | Broken | Delayed | Moved


class Switched(Record, frozen=True):
    """A switch of the policy, which moved so many waiting documents of so many customers.

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
    """Whether an outcome was saved; stale: the claim had ended."""

    SAVED = "saved"
    STALE = "stale"


class EventKind(StrEnum):
    """The kinds of events."""

    __hash__ = str.__hash__  # that of an enumeration is slower, and events are counted by kind

    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    PROGRESS = "progress"
    DONE = "done"
    FAILED = "failed"
    REQUEUED = "requeued"
    RELEASED = "released"
    RESCUED = "rescued"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    DELETED = "deleted"
    CHANGED = "changed"
    PARTS_DONE = "parts-done"
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
    """One row of the append-only record. Without a customer, it is about the whole installation.

    `actor` is the id of the key or the name of the program that decided it; null if none did.
    `reference` and `metadata` are the present ones of the document; a deleted one has none.
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
