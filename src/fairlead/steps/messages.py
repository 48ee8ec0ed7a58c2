"""The protocol of a step process: one JSON message a line, over a socket of its own.

The engine sends `Setup`, then `StartJob` and `CancelJob`. The step process answers with
`Loaded` or `LoadFailed`, then with `JobAdvanced`, `Printed` and `JobEnded`.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from fairlead.model.json import from_json, to_json
from fairlead.steps.outcomes import Outcome, StepJob, StepOptions


class Setup(Struct, frozen=True, tag="setup"):
    """What a step process must import, and how. It dies with the process `parent`."""

    reference: str
    search_path: list[str]
    result_limit: int
    parent: int


class StartJob(Struct, frozen=True, tag="start"):
    """Run the step on a document."""

    job: StepJob


class CancelJob(Struct, frozen=True, tag="cancel"):
    """Tell a job that its result is not needed."""

    id: str


class Loaded(Struct, frozen=True, tag="loaded"):
    """The step is imported; the process takes jobs. `sources` are the user's imported files."""

    options: StepOptions
    sources: list[Path]


class LoadFailed(Struct, frozen=True, tag="load-failed"):
    """The step cannot be imported or called; the process ends."""

    sentence: str


class JobAdvanced(Struct, frozen=True, tag="advanced"):
    """The progress of a job."""

    id: str
    done: int
    total: int


class Printed(Struct, frozen=True, tag="printed"):
    """A line that the step printed; without an id if it cannot be attributed to a job."""

    id: str | None
    line: str


class JobEnded(Struct, frozen=True, tag="ended"):
    """The end of a job."""

    id: str
    outcome: Outcome


Request = Setup | StartJob | CancelJob
Answer = Loaded | LoadFailed | JobAdvanced | Printed | JobEnded


def encode(message: Request | Answer) -> bytes:
    return to_json(message) + b"\n"


def decode_request(line: bytes) -> Request:
    return from_json(Request, line)  # type: ignore[arg-type]


def decode_answer(line: bytes) -> Answer:
    return from_json(Answer, line)  # type: ignore[arg-type]
