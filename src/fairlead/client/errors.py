"""Problems that a server answers with, as the errors that the same call raises without one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead import errors
from fairlead.model.problems import TYPE_PREFIX

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
    """The error for a problem's stable `type`; `code`, where it is there, is more exact."""
    kind = str(problem.get("type", "")).removeprefix(TYPE_PREFIX)
    found = (
        _by_code(problem.get("code"))
        or _BY_LIMIT.get(str(problem.get("limit")))
        or _BY_KIND.get(kind, errors.ServerFailed)
    )
    error = found(str(problem.get("detail") or problem.get("title") or kind))
    after = problem.get("retry_after")
    if isinstance(after, int | float) and 0 <= after < math.inf:
        error.retry_after = float(after)
    return error


def _by_code(code: Any) -> type[errors.FairleadError] | None:
    return next((each for each in _tree(errors.FairleadError) if each.code == code), None)


def _tree(base: type[errors.FairleadError]) -> Iterator[type[errors.FairleadError]]:
    yield base
    for each in base.__subclasses__():
        yield from _tree(each)
