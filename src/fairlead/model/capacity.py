"""Capacity: how many documents are processed at once, by step, and which queues cannot run."""

from __future__ import annotations

from enum import StrEnum

from fairlead.errors import Message
from fairlead.model.json import Record
from fairlead.model.pipelines import pipeline_of


class StepCapacity(Record, frozen=True):
    """A step over all engines: how many documents it processes at once, and does now.

    `engines` is the number of engines in which it can run. `problem` is why it cannot run in one;
    null: it can run in all.
    """

    step: str
    capacity: int
    busy: int
    engines: int
    problem: str | None = None


class PulledStep(Record, frozen=True):
    """A pulled step, and the ids of the keys of programs that claim its documents."""

    step: str
    keys: tuple[str, ...]


class ProblemCause(StrEnum):
    """Why no document of a queue can start."""

    STEP = "step"
    NOT_PULLED = "not-pulled"
    NOT_SERVED = "not-served"


class QueueProblem(Record, frozen=True):
    """A queue from which no document can start, and the cause.

    `detail` is what the engine says about the step, or the name of the pulled step.
    """

    queue: str
    cause: ProblemCause
    detail: str = ""

    @property
    def pipeline(self) -> str:
        return pipeline_of(self.queue)

    @property
    def message(self) -> Message:
        """The problem as a sentence for operators."""
        match self.cause:
            case ProblemCause.STEP:
                return Message(
                    "pipeline {pipeline} cannot run here: {problem}",
                    pipeline=self.pipeline,
                    problem=self.detail,
                )
            case ProblemCause.NOT_PULLED:
                return Message(
                    "documents of the pipeline {pipeline} are waiting, and no program claims its "
                    "step {step} over HTTP",
                    pipeline=self.pipeline,
                    step=self.detail,
                )
            case ProblemCause.NOT_SERVED:
                return Message(
                    "documents of the pipeline {pipeline} are waiting, and no worker serves it",
                    pipeline=self.pipeline,
                )


class Capacity(Record, frozen=True):
    """What engines and programs that pull documents can process, as they last reported.

    `workers` is how many documents the engines process at once. A problem of a step is always
    listed, other problems only of queues in which documents wait.
    """

    workers: int
    engines: int
    steps: tuple[StepCapacity, ...] = ()
    pulled: tuple[PulledStep, ...] = ()
    problems: tuple[QueueProblem, ...] = ()

    def problem_of(self, queue: str) -> QueueProblem | None:
        """The problem of a queue, if it has one."""
        return next((problem for problem in self.problems if problem.queue == queue), None)

    def sentence_for(self, queue: str) -> str | None:
        """The problem of a queue as a sentence, if it has one."""
        problem = self.problem_of(queue)
        return None if problem is None else str(problem.message)
