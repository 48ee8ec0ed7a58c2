"""Every error Fairlead raises on purpose, in one tree.

FairleadError
├── UsageError                 the call itself is wrong; calling again needs other words
│   ├── InvalidSetting
│   ├── InvalidCustomer
│   ├── InvalidName
│   ├── InvalidTrace
│   └── MissingExtra           a library of an optional extra is not installed
├── Refused                    a submission that was not accepted; nothing was kept
│   ├── EmptyDocument
│   ├── TooLarge
│   ├── UnreadableSource
│   ├── UnknownCustomer
│   ├── PendingCapReached
│   ├── DailyBytesReached
│   ├── IdempotencyConflict
│   └── DeletedDocument        the idempotency key stands for a document that was deleted
├── UnknownDocument
├── UnknownKey
├── InvalidTransition          the document's state does not allow this
├── NotReady                   a text was asked for that does not exist (yet)
└── DataError                  the data folder or its disk cannot serve
    ├── NoDataFolder
    ├── ReadOnlyData
    ├── DiskFull
    ├── NewerData
    ├── DamagedData
    ├── DataInUse
    └── StoreBusy

Each message is one sentence that says what was expected, what came, and what to do next.
"""

from __future__ import annotations


class FairleadError(Exception):
    """Base of all errors that Fairlead raises on purpose."""


class UsageError(FairleadError):
    """The call itself is wrong."""


class InvalidSetting(UsageError):
    """A setting is unknown or has a value it cannot have."""


class InvalidCustomer(UsageError):
    """A customer's name is not one."""


class InvalidName(UsageError):
    """A document's name is not one."""


class InvalidTrace(UsageError):
    """A trace for the simulator cannot be read."""


class MissingExtra(UsageError):
    """A library of an optional extra is not installed."""


class Refused(FairleadError):
    """A submission was not accepted; nothing of it was kept."""


class EmptyDocument(Refused):
    """The document has no bytes."""


class TooLarge(Refused):
    """The document has more bytes than the settings allow."""


class UnreadableSource(Refused):
    """The file to submit is missing or may not be read."""


class UnknownCustomer(Refused):
    """The customer was never seen, and strict submission asks for known ones."""


class PendingCapReached(Refused):
    """The customer has as many pending documents as its cap allows."""


class DailyBytesReached(Refused):
    """The customer has sent as many bytes today as it may."""


class IdempotencyConflict(Refused):
    """The idempotency key was used before for another body."""


class DeletedDocument(Refused):
    """The idempotency key stands for documents that were deleted."""


class UnknownKey(FairleadError):
    """No key has this id."""


class UnknownDocument(FairleadError):
    """No document has this id."""


class InvalidTransition(FairleadError):
    """The document's state does not allow the action."""


class NotReady(FairleadError):
    """The document has no text (yet)."""


class DataError(FairleadError):
    """The data folder or its disk cannot serve."""


class NoDataFolder(DataError):
    """There is no Fairlead data at this path."""


class ReadOnlyData(DataError):
    """The data folder cannot be written."""


class DiskFull(DataError):
    """The disk of the data folder is full."""


class NewerData(DataError):
    """The data folder was written by a newer version of Fairlead."""


class DamagedData(DataError):
    """What is on disk is not what was written."""


class DataInUse(DataError):
    """Another server already works on this data folder."""


class StoreBusy(DataError):
    """Another process kept the database locked for too long."""
