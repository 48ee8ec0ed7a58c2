"""A step that sends the document to a model or OCR service over HTTP.

Copy it and adapt `ask` to your service. `SERVICE_URL` and `SERVICE_KEY` are variables of the
worker's environment; a step process gets all of them but those that begin with FAIRLEAD_.
"""

from __future__ import annotations

import json
import os
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from fairlead import Job, Refuse, Result, RetryLater, step

BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
TIMEOUT = 60
DEFAULT_PAUSE = 30.0


@step(attempts=4, timeout=120, concurrency=8)
def recognise(job: Job) -> Result:
    """Text and fields as the service finds them."""
    answer = ask(job)
    return Result(text=answer["text"], data={"fields": answer.get("fields", {})})


def ask(job: Job) -> dict[str, Any]:
    """Call the service.

    The document's id as the idempotency key lets the service return the answer of an earlier
    attempt instead of charging for it twice.
    """
    headers = {
        "Authorization": f"Bearer {os.environ['SERVICE_KEY']}",
        "Content-Type": "application/octet-stream",
        "Idempotency-Key": job.id,
    }
    request = Request(os.environ["SERVICE_URL"], job.content, headers)  # noqa: S310 - yours
    try:
        with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - yours
            answer: dict[str, Any] = json.load(response)
            return answer
    except HTTPError as error:
        with error:
            if error.code in BUSY:  # not the document's fault: no attempt is used
                raise RetryLater(_pause(error)) from None
            if error.code == HTTPStatus.UNPROCESSABLE_ENTITY:
                raise Refuse("not-recognised", "The document could not be recognised.") from None
        raise  # anything else is retried with backoff


def _pause(error: HTTPError) -> float:
    seconds = error.headers.get("Retry-After", "")
    return float(seconds) if seconds.isdecimal() else DEFAULT_PAUSE
