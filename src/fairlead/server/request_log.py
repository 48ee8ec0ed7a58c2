"""The log of the server: each line of a request ends with the id of the request."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TextIO

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request; None: the code runs outside of requests."""


class _WithRequestId(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's own name)
        line = super().formatMessage(record)
        request_id = REQUEST_ID.get()
        return line if request_id is None else f"{line} (request {request_id})"


def log_handler(stream: TextIO | None = None) -> logging.Handler:
    """A handler that writes to the stream, by default standard error."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_WithRequestId())
    return handler


def log_requests() -> None:
    """Write the log to standard error, unless the process has a log already.

    It includes what steps print, at level INFO.
    """
    logging.basicConfig(handlers=[log_handler()])
    logging.getLogger("fairlead.steps").setLevel(logging.INFO)
