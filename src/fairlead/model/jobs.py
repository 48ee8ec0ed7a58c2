"""Jobs of pulled steps, as programs get them over HTTP."""

from __future__ import annotations

from typing import Any

from msgspec import field

from fairlead.model.json import Record


class PulledJob(Record, frozen=True):
    """One document for a pulled step.

    The `token` is for renewing and ending the job; the claim ends `lease` seconds after the last
    renewal. `content`, `text`, `markdown` and `data` are paths of the original and of the results
    of earlier steps; null: there is none. `attempt` at this step counts from 1.
    """

    token: str
    step: str
    document: str
    customer: str
    name: str
    kind: str | None
    size: int
    sha256: str
    attempt: int
    lease: float
    content: str
    text: str | None
    markdown: str | None
    data: str | None
    pipeline: str
    metadata: dict[str, Any] = field(default_factory=dict)


class PulledJobList(Record, frozen=True):
    """Jobs in the order of the queue; empty if no document waits."""

    jobs: list[PulledJob]


class RenewedJob(Record, frozen=True):
    """The claim holds for `lease` seconds from now on."""

    lease: float
