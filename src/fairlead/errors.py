"""Every error that Fairlead raises on purpose, in one tree.

FairleadError
├── UsageError                 the call itself is wrong; repeating it does not help
│   ├── InvalidSetting
│   ├── InvalidCustomer
│   ├── InvalidName
│   ├── InvalidField           metadata, reference, pipeline or not_before of a submission
│   ├── InvalidTrace
│   ├── InvalidWebhook
│   ├── InvalidStep            a function that cannot be a step, or cannot be imported
│   ├── InvalidResult          a step returned something else than a result
│   ├── InvalidCursor
│   └── MissingExtra           a library of an optional extra is not installed
├── Refused                    a submission was not accepted; nothing of it was stored
│   ├── EmptyDocument
│   ├── TooLarge
│   ├── UnreadableSource
│   ├── UnknownCustomer
│   ├── UnknownPipeline        the settings name no such pipeline
│   ├── LimitReached
│   │   ├── PendingCapReached
│   │   ├── DailyBytesReached
│   │   └── TooManyRequests    over HTTP only
│   ├── CustomerBlocked        an operator has blocked the customer, with a reason
│   ├── UnknownBatch
│   ├── BatchEnded             none of its documents is pending any more
│   ├── IdempotencyConflict
│   └── DeletedDocument        the idempotency key belongs to a document that was deleted
├── UnknownDocument
├── UnknownFile                the result has no file of this name
├── UnknownWebhook
├── UnknownDelivery
├── UnknownKey
├── InvalidTransition          the document's state does not allow the action
├── NotReady                   the document has no text (yet)
├── JobLost                    the job of a pulled step was cancelled or requeued
├── CustomerExists
├── Unauthorized               no valid API key
├── NotAllowed                 the API key does not permit this
├── ServerFailed               the server failed, or is not a Fairlead server
├── NoConnection               the server is unreachable, or the connection was lost
├── NoSandbox                  the machine lacks a sandbox feature that the settings require
├── BrokerUnreachable          documents wait safely until the broker is back
├── CounterUnavailable         the counters of fair priorities are unreachable
└── DataError                  the data folder or its disk cannot be used
    ├── NoDataFolder
    ├── NewerData
    ├── OtherSchema            the database has the tables of another version
    ├── DamagedData
    ├── DataInUse
    ├── TargetNotEmpty         the target of a migration already has data
    ├── StoreRefused           the database server refuses this user
    └── TemporarilyUnavailable the same call works later; nothing is lost meanwhile
        ├── DiskFull
        ├── ReadOnlyData
        ├── StoreBusy
        └── StoreUnreachable       the database server is unreachable
            └── FilesUnreachable   the folder or object storage of the documents is absent

Each message is one sentence that says what was expected, what came, and what to do next. Each class
has its own `code`, which never changes, and a `title`, which is the same for all its messages.
`problem` is the end of the problem type over HTTP, and `status` its HTTP status; subclasses inherit
both. A class that sets `problem` also gives that problem its title.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TYPE_PREFIX = "urn:fairlead:problem:"
"""The beginning of the `type` of every problem over HTTP."""


class Message(str):
    """A translatable sentence: an English template and its parameters.

    `hint` is appended on the command line only.
    """

    __slots__ = ("params", "template")
    template: str
    params: dict[str, Any]

    def __new__(cls, template: str, /, *, hint: str | None = None, **params: Any) -> Message:
        """Fill the template: numbers with thousands separators, lists joined."""
        text = template.format(**{name: _formatted(value) for name, value in params.items()})
        message = super().__new__(cls, text if hint is None else f"{text}; {hint}")
        message.template, message.params = template, params
        return message

    def without_hint(self) -> Message:
        """The sentence for readers without a command line."""
        return Message(self.template, **self.params)


def _formatted(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        return "; ".join(map(_formatted, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


class FairleadError(Exception):
    """Base of all errors that Fairlead raises on purpose."""

    code = "error"
    problem = "internal"
    status = 500
    title = "Internal error"
    retry_after: float | None = None
    """Seconds after which to retry, if the server named them."""
    idempotency_key: str | None = None
    """The key of a submission that failed: resubmitting with it creates no duplicates."""

    def __init_subclass__(cls, **attributes: Any) -> None:
        """Set `code`, `title`, `problem`, `status` … from the arguments of the class statement."""
        super().__init_subclass__()
        for name, value in attributes.items():
            setattr(cls, name, value)


class UsageError(
    FairleadError, code="usage", problem="invalid-request", status=400, title="Invalid request"
):
    """The call itself is wrong."""


class InvalidSetting(UsageError, code="invalid-setting", title="Invalid setting"):
    """A setting is unknown, or its value is not valid."""


class InvalidCustomer(UsageError, code="invalid-customer", title="Invalid customer name"):
    """A customer's name is not valid."""


class InvalidName(UsageError, code="invalid-name", title="Invalid document name"):
    """A document's name is not valid."""


class InvalidField(UsageError, code="invalid-field", title="Invalid field"):
    """The metadata, reference, pipeline or earliest start of a document is not valid."""


class InvalidTrace(UsageError, code="invalid-trace", title="Invalid trace"):
    """A trace for the simulator cannot be read."""


class InvalidWebhook(UsageError, code="invalid-webhook", title="Invalid webhook"):
    """A webhook's URL or event kinds are not valid, or there are too many webhooks."""


class InvalidStep(UsageError, code="invalid-step", title="Invalid step"):
    """A step is not a function that a step process can import and call."""


class InvalidResult(UsageError, code="invalid-result", title="Invalid result of a step"):
    """A step returned something else than a result."""


class InvalidCursor(
    UsageError, code="invalid-cursor", problem="invalid-cursor", title="Invalid cursor"
):
    """The cursor is not from a page of this listing."""


class MissingExtra(UsageError, code="missing-extra", title="Missing library"):
    """A library of an optional extra is not installed."""


class Refused(
    FairleadError, code="refused", problem="invalid-upload", status=400, title="Invalid upload"
):
    """A submission was not accepted; nothing of it was stored."""


class EmptyDocument(Refused, code="empty-document", title="Empty document"):
    """The document has no bytes."""


class TooLarge(Refused, code="too-large", problem="too-large", status=413, title="Too large"):
    """The document has more bytes than the settings allow."""


class UnreadableSource(Refused, code="unreadable-source", title="File cannot be read"):
    """The file to submit is missing, or this user may not read it."""


class UnknownCustomer(
    Refused,
    code="unknown-customer",
    problem="unknown-customer",
    status=404,
    title="Unknown customer",
):
    """The customer does not exist, and strict submission requires that it does."""


class UnknownPipeline(Refused, code="unknown-pipeline", title="Unknown pipeline"):
    """The settings name no pipeline of this name."""


class LimitReached(
    Refused, code="limit-reached", problem="limit-reached", status=429, title="Limit reached"
):
    """The customer is at one of its limits."""

    limit = ""
    """The customer's setting that is the limit."""
    never_fits = False
    """Whether the limit would refuse the same submission at any time."""


class PendingCapReached(
    LimitReached, code="pending-cap-reached", title="Too many pending documents", limit="pending"
):
    """The customer is at its cap of pending documents."""


class DailyBytesReached(
    LimitReached, code="daily-bytes", title="Daily quota of bytes reached", limit="bytes_a_day"
):
    """The customer is at its daily quota of bytes."""


class TooManyRequests(
    LimitReached, code="requests-a-second", title="Too many requests", limit="requests_a_second"
):
    """The customer is at its rate limit."""


class CustomerBlocked(
    Refused,
    code="customer-blocked",
    problem="customer-blocked",
    status=403,
    title="Customer blocked",
):
    """An operator has blocked the customer: its new documents are refused."""


class UnknownBatch(
    Refused, code="unknown-batch", problem="unknown-batch", status=404, title="Unknown batch"
):
    """No batch of this customer has this id."""


class BatchEnded(
    Refused, code="batch-ended", problem="batch-ended", status=409, title="Batch ended"
):
    """None of the batch's documents is pending any more, so nothing can be added to it."""


class IdempotencyConflict(
    Refused,
    code="idempotency-conflict",
    problem="idempotency-conflict",
    status=422,
    title="Idempotency key already used",
):
    """The idempotency key was used with another request."""


class DeletedDocument(
    Refused, code="deleted-document", problem="deleted", status=410, title="Document deleted"
):
    """The idempotency key belongs to documents that were deleted."""


class UnknownKey(
    FairleadError, code="unknown-key", problem="unknown-key", status=404, title="Unknown API key"
):
    """No API key has this id."""


class UnknownDocument(
    FairleadError,
    code="unknown-document",
    problem="unknown-document",
    status=404,
    title="Unknown document",
):
    """No document has this id."""


class UnknownFile(UnknownDocument, code="unknown-file", title="Unknown file"):
    """The result of the document has no file of this name."""


class UnknownWebhook(
    FairleadError,
    code="unknown-webhook",
    problem="unknown-webhook",
    status=404,
    title="Unknown webhook or delivery",
):
    """No webhook has this id."""


class UnknownDelivery(
    FairleadError,
    code="unknown-delivery",
    problem="unknown-webhook",
    status=404,
    title="Unknown delivery",
):
    """No delivery has this id."""


class InvalidTransition(
    FairleadError,
    code="invalid-transition",
    problem="wrong-state",
    status=409,
    title="Not possible in this state",
):
    """The document's state does not allow the action."""


class NotReady(
    FairleadError, code="not-ready", problem="not-ready", status=409, title="Text not ready"
):
    """The document has no text (yet)."""


class JobLost(
    FairleadError, code="job-lost", problem="job-lost", status=409, title="Job no longer held"
):
    """The job of a pulled step was cancelled, ended, or given to another worker."""


class CustomerExists(
    FairleadError,
    code="customer-exists",
    problem="customer-exists",
    status=409,
    title="Customer already exists",
):
    """A customer of this name exists already."""


class Unauthorized(
    FairleadError,
    code="unauthorised",
    problem="unauthorised",
    status=401,
    title="Valid API key required",
):
    """The request has no valid API key."""


class NotAllowed(
    FairleadError,
    code="forbidden",
    problem="forbidden",
    status=403,
    title="Not permitted with this API key",
):
    """The API key does not permit this."""


class ServerFailed(FairleadError, code="server", title="Server failed"):
    """The server failed to handle the request."""


class NoConnection(FairleadError, code="no-connection", title="Server unreachable"):
    """The server is unreachable, or the connection was lost before its answer."""


class NoSandbox(FairleadError, code="no-sandbox", title="Sandbox not available"):
    """The machine lacks a sandbox feature that the settings require."""


class BrokerUnreachable(FairleadError, code="broker-unreachable", title="Broker unreachable"):
    """The broker that wakes Celery's workers is unreachable."""


class CounterUnavailable(FairleadError, code="ledger-down", title="Counters unreachable"):
    """The counters of fair priorities did not answer in time, or not as expected."""


class DataError(FairleadError, code="data", title="Data cannot be used"):
    """The data folder or its disk cannot be used."""


class NoDataFolder(DataError, code="no-data-folder", title="No data folder"):
    """There is no Fairlead data at this path."""


class NewerData(DataError, code="newer-data", title="Data folder of a newer version"):
    """The data folder was written by a newer version of Fairlead."""


class OtherSchema(DataError, code="other-schema", title="Data of another version"):
    """The database has the tables of another version of Fairlead."""


class DamagedData(DataError, code="damaged-data", title="Damaged data"):
    """The bytes on disk differ from those that were written."""


class DataInUse(DataError, code="data-in-use", title="Data folder in use"):
    """Another server already uses this data folder."""


class TemporarilyUnavailable(
    DataError, code="not-now", problem="unavailable", status=503, title="Temporarily unavailable"
):
    """The same call works later: wait and retry."""


class DiskFull(
    TemporarilyUnavailable, code="disk-full", problem="disk-full", status=507, title="Disk full"
):
    """The disk of the data folder is full."""


class ReadOnlyData(TemporarilyUnavailable, code="read-only-data", title="Data folder is read-only"):
    """The data folder cannot be written; what is in it can be read."""


class StoreBusy(TemporarilyUnavailable, code="store-busy", title="Database locked"):
    """Another process kept the database locked for too long."""


class StoreUnreachable(
    TemporarilyUnavailable, code="store-unreachable", title="Database unreachable"
):
    """The database server is unreachable, or the connection was lost."""


class FilesUnreachable(StoreUnreachable, code="files-unreachable", title="Files unreachable"):
    """The folder or the object storage of the documents is absent, or another one."""


class StoreRefused(
    DataError,
    code="store-refused",
    problem="unavailable",
    status=503,
    title="Database refuses the connection",
):
    """The database server refuses the user, the password or the database."""


class TargetNotEmpty(DataError, code="target-not-empty", title="Target not empty"):
    """The target of a migration already has data."""


def error_classes(base: type[FairleadError] = FairleadError) -> Iterator[type[FairleadError]]:
    """The class and all its subclasses."""
    yield base
    for subclass in base.__subclasses__():
        yield from error_classes(subclass)
