"""The errors that refuse a submission, with sentences for the sender."""

from __future__ import annotations

from typing import TypeVar

from fairlead.errors import (
    CustomerBlocked,
    DailyBytesReached,
    DeletedDocument,
    IdempotencyConflict,
    LimitReached,
    Message,
    PendingCapReached,
    Unauthorized,
    UnknownCustomer,
)

R = TypeVar("R", bound=LimitReached)


def no_valid_key() -> Unauthorized:
    """The API key of the request is unknown, revoked or expired."""
    return Unauthorized(
        Message("the request has no valid API key; send the header Authorization: Bearer KEY")
    )


def deleted_customer(name: str) -> UnknownCustomer:
    """The customer was deleted, and submissions do not bring it back."""
    return UnknownCustomer(
        Message(
            "customer {name} was deleted; ask the operator to add it again",
            name=repr(name),
            hint=f"add it anew: fairlead customers add {name}",
        )
    )


def blocked(name: str, reason: str) -> CustomerBlocked:
    """An operator refuses new documents of this customer."""
    return CustomerBlocked(
        Message("customer {name} is blocked: {reason}", name=repr(name), reason=reason)
    )


def over_pending_cap(name: str, cap: int, pending: int, sent: int) -> PendingCapReached:
    """The customer would exceed its cap on pending documents."""
    if cap == 0:
        words = Message(
            "customer {name} may not submit documents: its cap on pending documents is 0",
            name=repr(name),
        )
        return _for_good(PendingCapReached(words))
    if sent > cap:
        words = Message(
            "customer {name} may have {cap} pending documents; {sent} were "
            "submitted together; submit fewer at once",
            name=repr(name),
            cap=cap,
            sent=sent,
        )
        return _for_good(PendingCapReached(words))
    return PendingCapReached(
        Message(
            "customer {name} is at its cap of {cap} pending documents (pending: "
            "{pending}, submitted: {sent}); submit again when some are done",
            name=repr(name),
            cap=cap,
            pending=pending,
            sent=sent,
        )
    )


def daily_bytes(name: str, limit: int, sent: int) -> DailyBytesReached:
    """The customer would exceed its daily quota of bytes."""
    if sent > limit:
        words = Message(
            "customer {name} may submit {bytes} bytes a day; {sent} were submitted "
            "together; submit less at once",
            name=repr(name),
            bytes=limit,
            sent=sent,
        )
        return _for_good(DailyBytesReached(words))
    return DailyBytesReached(
        Message(
            "customer {name} is at its daily quota of {bytes} bytes; submit the "
            "rest after midnight UTC",
            name=repr(name),
            bytes=limit,
        )
    )


def other_documents(key: str | None) -> IdempotencyConflict:
    """The idempotency key belongs to other documents."""
    return IdempotencyConflict(
        Message(
            "idempotency key {key} was used for other documents; use a new key for "
            "a new submission",
            key=repr(key),
        )
    )


def deleted_documents(key: str | None) -> DeletedDocument:
    """The idempotency key belongs to documents that were deleted."""
    return DeletedDocument(
        Message(
            "idempotency key {key} belongs to documents that were deleted; use a "
            "new key to submit them again",
            key=repr(key),
        )
    )


def _for_good(refusal: R) -> R:
    """Mark a refusal of what will not fit later either."""
    refusal.never_fits = True
    return refusal
