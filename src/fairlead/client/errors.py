"""Problems (RFC 9457) as the errors that the embedded call raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairlead import errors
from fairlead.errors import TYPE_PREFIX

_BY_KIND: dict[str, type[errors.FairleadError]] = {
    "invalid-request": errors.UsageError,
    "invalid-upload": errors.Refused,
    "invalid-cursor": errors.UnknownDocument,
    "key-in-query": errors.UsageError,
    "unauthorised": errors.Unauthorized,
    "forbidden": errors.NotAllowed,
    "unknown-document": errors.UnknownDocument,
    "unknown-customer": errors.UnknownCustomer,
    "unknown-key": errors.UnknownKey,
    "unknown-webhook": errors.UnknownWebhook,
    "not-ready": errors.NotReady,
    "job-lost": errors.JobLost,
    "wrong-state": errors.InvalidTransition,
    "customer-exists": errors.CustomerExists,
    "deleted": errors.DeletedDocument,
    "too-large": errors.TooLarge,
    "idempotency-conflict": errors.IdempotencyConflict,
    "disk-full": errors.DiskFull,
}
_BY_LIMIT: dict[str, type[errors.FairleadError]] = {
    "pending": errors.PendingCapReached,
    "bytes_a_day": errors.DailyBytesReached,
    "requests_a_second": errors.TooManyRequests,
}


def error_of(problem: Mapping[str, Any]) -> errors.FairleadError:
    """The error for a problem: by its `code`, else by its limit, else by its `type`."""
    kind = str(problem.get("type", "")).removeprefix(TYPE_PREFIX)
    error_class = (
        _by_code(problem.get("code"))
        or _BY_LIMIT.get(str(problem.get("limit")))
        or _BY_KIND.get(kind, errors.ServerFailed)
    )
    error = error_class(str(problem.get("detail") or problem.get("title") or kind))
    if problem.get("retry_after") is not None:
        error.retry_after = float(problem["retry_after"])
    return error


def _by_code(code: Any) -> type[errors.FairleadError] | None:
    classes = _with_subclasses(errors.FairleadError)
    return next((error_class for error_class in classes if error_class.code == code), None)


def _with_subclasses(base: type[errors.FairleadError]) -> Iterator[type[errors.FairleadError]]:
    yield base
    for subclass in base.__subclasses__():
        yield from _with_subclasses(subclass)
