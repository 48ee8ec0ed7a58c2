"""Every error Fairlead raises on purpose, in one tree.

FairleadError
├── UsageError                 the call itself is wrong; calling again needs other words
│   ├── InvalidSetting
│   ├── InvalidCustomer
│   ├── InvalidName
│   ├── InvalidTrace
│   ├── InvalidWebhook
│   └── MissingExtra           a library of an optional extra is not installed
├── Refused                    a submission that was not accepted; nothing was kept
│   ├── EmptyDocument
│   ├── TooLarge
│   ├── UnreadableSource
│   ├── UnknownCustomer
│   ├── PendingCapReached
│   ├── DailyBytesReached
│   ├── TooManyRequests        over HTTP only
│   ├── IdempotencyConflict
│   └── DeletedDocument        the idempotency key stands for a document that was deleted
├── UnknownDocument
├── UnknownWebhook
├── UnknownDelivery
├── UnknownKey
├── InvalidTransition          the document's state does not allow this
├── NotReady                   a text was asked for that does not exist (yet)
├── CustomerExists
├── NotLetIn                   the server does not know the key
├── NotAllowed                 the key may not do this
├── ServerFailed               the server could not do it, or what answers is no Fairlead server
├── NoConnection               the server cannot be reached, or went away
├── NoSandbox                  the machine lacks a lock that the settings ask for
├── BrokerUnreachable          the broker is away; documents wait safely until it is back
├── LedgerDown                 the counts of fair priorities cannot be reached
└── DataError                  the data folder or its disk cannot serve
    ├── NoDataFolder
    ├── ReadOnlyData
    ├── NewerData
    ├── DamagedData
    ├── DataInUse
    ├── TargetNotEmpty         what is carried over would mix with what is there
    ├── StoreRefused           the database server refuses this user, and will go on doing so
    └── NotNow                 it passes: the same call is good later, and nothing is lost meanwhile
        ├── DiskFull
        ├── StoreBusy
        └── StoreUnreachable       the database server is away; it may come back
            └── FilesUnreachable   the object storage is

Each message is one sentence that says what was expected, what came, and what to do next. Each class
has a `code`, which never changes, and a `title`, which does not depend on the case at hand.
"""

from __future__ import annotations

from typing import Any


class Message(str):
    """A sentence in English that other languages can say: a template and what fills it.

    `hint` is added for whoever sits at a command line; others are not told it.
    """

    __slots__ = ("params", "template")
    template: str
    params: dict[str, Any]

    def __new__(cls, template: str, /, *, hint: str | None = None, **params: Any) -> Message:
        """Fill the template: numbers with their thousands apart, lists in a row, else as it is."""
        said = template.format(**{name: _shown(value) for name, value in params.items()})
        made = super().__new__(cls, said if hint is None else f"{said}; {hint}")
        made.template, made.params = template, params
        return made

    def without_hint(self) -> Message:
        """What is said to those who have no command line."""
        return Message(self.template, **self.params)


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        return "; ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


class FairleadError(Exception):
    """Base of all errors that Fairlead raises on purpose."""

    code = "error"
    title = "Something went wrong"
    retry_after: float | None = None
    """Seconds after which a server says that it is worth trying again."""
    idempotency_key: str | None = None
    """Of documents that were on their way to a server: sent again with it, none is there twice."""


class UsageError(FairleadError):
    """The call itself is wrong."""

    code = "usage"
    title = "The request is not valid"


class InvalidSetting(UsageError):
    """A setting is unknown or has a value it cannot have."""

    code = "invalid-setting"
    title = "A setting is not valid"


class InvalidCustomer(UsageError):
    """A customer's name is not one."""

    code = "invalid-customer"
    title = "The customer's name is not valid"


class InvalidName(UsageError):
    """A document's name is not one."""

    code = "invalid-name"
    title = "The document's name is not valid"


class InvalidTrace(UsageError):
    """A trace for the simulator cannot be read."""

    code = "invalid-trace"
    title = "The trace cannot be read"


class InvalidWebhook(UsageError):
    """A webhook's address or kinds cannot be used, or there are too many of them."""

    code = "invalid-webhook"
    title = "The webhook is not valid"


class MissingExtra(UsageError):
    """A library of an optional extra is not installed."""

    code = "missing-extra"
    title = "A library is not installed"


class Refused(FairleadError):
    """A submission was not accepted; nothing of it was kept."""

    code = "refused"
    title = "The submission was refused"
    never_fits = False
    """Whether its limit would refuse the same at any other time too."""


class EmptyDocument(Refused):
    """The document has no bytes."""

    code = "empty-document"
    title = "The document is empty"


class TooLarge(Refused):
    """The document has more bytes than the settings allow."""

    code = "too-large"
    title = "The document is too large"


class UnreadableSource(Refused):
    """The file to submit is missing or may not be read."""

    code = "unreadable-source"
    title = "The file cannot be read"


class UnknownCustomer(Refused):
    """The customer was never seen, and strict submission asks for known ones."""

    code = "unknown-customer"
    title = "The customer is not known"


class PendingCapReached(Refused):
    """The customer has as many pending documents as its cap allows."""

    code = "pending-cap-reached"
    title = "Too many pending documents"


class DailyBytesReached(Refused):
    """The customer has sent as many bytes today as it may."""

    code = "daily-bytes"
    title = "The customer has sent as many bytes today as it may"


class TooManyRequests(Refused):
    """The customer sends requests faster than it may."""

    code = "requests-a-second"
    title = "The customer sends more requests than it may"


class IdempotencyConflict(Refused):
    """The idempotency key was used before for another body."""

    code = "idempotency-conflict"
    title = "The idempotency key was used for other documents"


class DeletedDocument(Refused):
    """The idempotency key stands for documents that were deleted."""

    code = "deleted-document"
    title = "The document was deleted"


class UnknownKey(FairleadError):
    """No key has this id."""

    code = "unknown-key"
    title = "The key is not known"


class UnknownDocument(FairleadError):
    """No document has this id."""

    code = "unknown-document"
    title = "The document is not known"


class UnknownWebhook(FairleadError):
    """No webhook has this id."""

    code = "unknown-webhook"
    title = "The webhook is not known"


class UnknownDelivery(FairleadError):
    """No delivery has this id."""

    code = "unknown-delivery"
    title = "The delivery is not known"


class InvalidTransition(FairleadError):
    """The document's state does not allow the action."""

    code = "invalid-transition"
    title = "The document's state does not allow this"


class NotReady(FairleadError):
    """The document has no text (yet)."""

    code = "not-ready"
    title = "The text is not ready"


class CustomerExists(FairleadError):
    """There is a customer of this name already."""

    code = "customer-exists"
    title = "The customer is known already"


class Unauthorized(FairleadError):
    """The server does not know the key, or none was sent."""

    code = "unauthorised"
    title = "A valid key is needed"


class NotAllowed(FairleadError):
    """The key may not do this."""

    code = "forbidden"
    title = "This key may not do that"


class ServerFailed(FairleadError):
    """The server could not do what it was asked for."""

    code = "server"
    title = "The server could not do this"


class NoConnection(FairleadError):
    """The server cannot be reached, or went away before it answered."""

    code = "no-connection"
    title = "The server cannot be reached"


class NoSandbox(FairleadError):
    """The machine cannot lock a reading process in as the settings ask for."""

    code = "no-sandbox"
    title = "Reading processes cannot be locked in"


class BrokerUnreachable(FairleadError):
    """The broker that wakes Celery's workers cannot be reached."""

    code = "broker-unreachable"
    title = "The broker cannot be reached"


class CounterUnavailable(FairleadError):
    """The ledger of fair priorities did not answer in time, or not as expected."""

    code = "ledger-down"
    title = "The ledger cannot be reached"


class DataError(FairleadError):
    """The data folder or its disk cannot serve."""

    code = "data"
    title = "The data cannot be used"


class NoDataFolder(DataError):
    """There is no Fairlead data at this path."""

    code = "no-data-folder"
    title = "There is no data folder"


class ReadOnlyData(DataError):
    """The data folder cannot be written."""

    code = "read-only-data"
    title = "The data folder cannot be written"


class NewerData(DataError):
    """The data folder was written by a newer version of Fairlead."""

    code = "newer-data"
    title = "The data folder belongs to a newer version"


class DamagedData(DataError):
    """What is on disk is not what was written."""

    code = "damaged-data"
    title = "The data are damaged"


class DataInUse(DataError):
    """Another server already works on this data folder."""

    code = "data-in-use"
    title = "The data folder is in use"


class TemporarilyUnavailable(DataError):
    """It cannot be done now, and can be when something has passed: who has time tries again."""

    code = "not-now"
    title = "This cannot be served now"


class DiskFull(TemporarilyUnavailable):
    """The disk of the data folder is full."""

    code = "disk-full"
    title = "The disk is full"


class StoreBusy(TemporarilyUnavailable):
    """Another process kept the database locked for too long."""

    code = "store-busy"
    title = "The database is busy"


class StoreUnreachable(TemporarilyUnavailable):
    """The database server cannot be reached, or the connection to it was lost."""

    code = "store-unreachable"
    title = "The database cannot be reached"


class FilesUnreachable(StoreUnreachable):
    """The object storage of the documents does not serve."""

    code = "files-unreachable"
    title = "The object storage cannot be reached"


class StoreRefused(DataError):
    """The database server refuses the user, the password or the database."""

    code = "store-refused"
    title = "The database refuses the connection"


class TargetNotEmpty(DataError):
    """Data are to be carried over to where some are already."""

    code = "target-not-empty"
    title = "The target is not empty"
