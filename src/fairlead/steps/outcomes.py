"""What passes between the engine and a step process: jobs, options and outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from msgspec import Struct

DEFAULT_RESULT_LIMIT = 100_000_000


class StepJob(NamedTuple):
    """A document for a step, with a folder for the files that the step reads and returns.

    The folder has the file `original` and the results of earlier steps: `text`, `markdown` and
    `data.json`. Short ones are in `contents` instead, by these names, so that most jobs need no
    folder. The step process writes below `folder/"result"`. `attempt` counts from 1.
    """

    id: str
    customer: str
    name: str
    kind: str | None
    metadata: dict[str, Any]
    attempt: int
    folder: Path
    contents: Mapping[str, bytes] = {}


class StepOptions(Struct, frozen=True):
    """How a step runs: the options of its decorator.

    `memory_limit` is in bytes, `timeout` and `retry_for` in seconds; `retry_for` bounds how long
    `RetryLater` may delay one document in total. `concurrency` is the number of jobs in one
    process, `processes` the most processes on a machine; None: one for each worker.
    """

    attempts: int = 3
    timeout: float = 300.0
    concurrency: int = 1
    memory_limit: int | None = None
    retry_for: float = 86_400.0
    processes: int | None = None


class ReturnedFile(Struct, frozen=True):
    """A file that a step returned: its bytes if it is short, or below the folder of its job."""

    name: str
    size: int
    sha256: str
    content: bytes | None = None
    path: Path | None = None

    @property
    def source(self) -> bytes | Path:
        """Its bytes, or its file."""
        if self.content is not None:
            return self.content
        if self.path is None:
            raise ValueError(f"{self.name} has neither bytes nor a file")
        return self.path

    def open(self) -> BinaryIO:
        source = self.source
        return BytesIO(source) if isinstance(source, bytes) else source.open("rb")

    def read(self) -> bytes:
        with self.open() as file:
            return file.read()


class ReturnedPart(ReturnedFile, frozen=True):
    """A document that a step extracted from its document; `pipeline`: None means the default."""

    pipeline: str | None = None


class Returned(Struct, frozen=True, tag="returned"):
    """The step returned a result; fields that it left out are None or empty."""

    text: ReturnedFile | None = None
    markdown: ReturnedFile | None = None
    data: ReturnedFile | None = None
    files: tuple[ReturnedFile, ...] = ()
    parts: tuple[ReturnedPart, ...] = ()


class StepRefused(Struct, frozen=True, tag="refused"):
    """The step refused the document for good; the customer reads the message."""

    code: str
    message: str


class Later(Struct, frozen=True, tag="later"):
    """The step asked to be called again after so many seconds."""

    seconds: float


class Raised(Struct, frozen=True, tag="raised"):
    """The step raised another exception. Both texts are for the operator only."""

    summary: str
    traceback: str


class Died(Struct, frozen=True, tag="died"):
    """The step process ended while this was its only job; `how` is "SIGSEGV", for instance."""

    how: str


class TimedOut(Struct, frozen=True, tag="timed-out"):
    """The job was the only one of its process, and took longer than so many seconds."""

    seconds: float


class Invalid(Struct, frozen=True, tag="invalid"):
    """The step returned an invalid result; the sentence says what was expected."""

    sentence: str


Outcome = Returned | StepRefused | Later | Raised | Died | TimedOut | Invalid


def cause_of(outcome: Outcome) -> str:
    """Why an attempt failed, for operators; with the traceback where there is one."""
    match outcome:
        case Raised():
            return outcome.traceback or outcome.summary
        case Died():
            return f"its process ended: {outcome.how}"
        case TimedOut():
            return f"it took longer than {outcome.seconds:g} s (timeout)"
        case Invalid():
            return outcome.sentence
        case _:
            return str(outcome)


class StepEnd(NamedTuple):
    """The end of a job, and how many seconds it took."""

    job: StepJob
    outcome: Outcome
    seconds: float
