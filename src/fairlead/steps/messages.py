"""The two protocols of steps, in JSON.

The engine asks the template of a step, one message a packet: `Setup`, then `StartProcess` with the
socket of the new process, and `KillProcess`. The template answers with `Loaded` or `LoadFailed`,
then with `ProcessStarted` and `ProcessEnded`.

The engine sends jobs to a process, one message a line: `StartJob`, `CancelJob`, `WithdrawJobs`. The
process answers with `Ready`, then with `JobAdvanced`, `Printed`, `JobEnded` and `JobsWithdrawn`. A
process that was not forked is sent a `Setup` first, and may answer with `LoadFailed`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.model.json import from_json, to_json
from fairlead.steps.outcomes import Outcome, StepJob, StepOptions


class InvalidMessage(ValueError):
    """What arrived is no message of the protocol."""


class Setup(Struct, frozen=True, tag="setup"):
    """What a process must import, and how. It dies with the process `parent`."""

    reference: str
    search_path: list[str]
    result_limit: int
    parent: int


class StartProcess(Struct, frozen=True, tag="start-process"):
    """Start a process under this number, with the socket that comes with the message."""

    number: int


class KillProcess(Struct, frozen=True, tag="kill-process"):
    """Kill a process and its forks."""

    number: int


class Loaded(Struct, frozen=True, tag="loaded"):
    """The step is imported. `sources` are the user's imported files.

    `is_forked`: processes are forks of the template. Otherwise each one imports the step itself.
    """

    options: StepOptions
    sources: list[Path]
    is_forked: bool


class LoadFailed(Struct, frozen=True, tag="load-failed"):
    """The step cannot be imported or called; the process ends. A change of `sources` may help."""

    sentence: str
    sources: list[Path] = []


class ProcessStarted(Struct, frozen=True, tag="process-started"):
    """A process runs."""

    number: int
    pid: int


class ProcessEnded(Struct, frozen=True, tag="process-ended"):
    """A process has ended; `how` is "exit code 3" or "SIGSEGV", for instance."""

    number: int
    how: str


class StartJob(Struct, frozen=True, tag="start"):
    """Run the step on a document, after the jobs before it if the process is full."""

    job: StepJob


class CancelJob(Struct, frozen=True, tag="cancel"):
    """Tell a job that its result is not needed."""

    id: str


class WithdrawJobs(Struct, frozen=True, tag="withdraw"):
    """Give back these jobs, as far as they have not begun."""

    ids: list[str]


class Ready(Struct, frozen=True, tag="ready"):
    """The process takes jobs."""


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
    """The end of a job, and how many seconds it ran."""

    id: str
    outcome: Outcome
    seconds: float


class JobsWithdrawn(Struct, frozen=True, tag="withdrawn"):
    """These jobs have not begun and will not."""

    ids: list[str]


TemplateRequest = Setup | StartProcess | KillProcess
TemplateAnswer = Loaded | LoadFailed | ProcessStarted | ProcessEnded
Request = Setup | StartJob | CancelJob | WithdrawJobs
Answer = Ready | LoadFailed | JobAdvanced | Printed | JobEnded | JobsWithdrawn

LARGEST_PACKET = 1 << 17
"""Bytes of the largest message between an engine and a template."""


def encode(message: TemplateRequest | TemplateAnswer | Request | Answer) -> bytes:
    return to_json(message) + b"\n"


def decode_template_request(packet: bytes) -> TemplateRequest:
    return from_json(TemplateRequest, packet)  # type: ignore[arg-type]


def decode_template_answer(packet: bytes) -> TemplateAnswer:
    """Raises InvalidMessage."""
    answer: TemplateAnswer = _decoded(TemplateAnswer, packet)
    return answer


def decode_request(line: bytes) -> Request:
    return from_json(Request, line)  # type: ignore[arg-type]


def decode_answer(line: bytes) -> Answer:
    """Raises InvalidMessage: a step, or a library that it uses, may write to the socket."""
    answer: Answer = _decoded(Answer, line)
    return answer


def _decoded(kind: Any, message: bytes) -> Any:
    try:
        return from_json(kind, message)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidMessage(f"{message[:80]!r} is no message of a step process") from error
