"""What engines report, summed up: the use of each step, and the queues that cannot run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from fairlead.model.capacity import Capacity, ProblemCause, PulledStep, QueueProblem, StepCapacity
from fairlead.model.engines import EngineReport, StepUse
from fairlead.model.pipelines import PULL, Pipeline


def capacity(
    reports: Sequence[EngineReport],
    pipelines: Sequence[Pipeline],
    waiting: Collection[str] = (),
) -> Capacity:
    """The capacity of these engines for these pipelines; `waiting` are queues with documents."""
    engines = [report for report in reports if report.pulled is None]
    queues = [queue for pipeline in pipelines for queue in pipeline.queues]
    return Capacity(
        workers=sum(report.workers for report in engines),
        engines=len(engines),
        steps=tuple(_steps(engines, queues)),
        pulled=tuple(_pulled_steps(reports, queues)),
        problems=tuple(_problems(reports, queues, waiting)),
    )


def is_blocked(capacity: Capacity, pipelines: Sequence[Pipeline]) -> bool:
    """Whether engines run, and not one pipeline can: all have a step with a problem."""
    blocked = {problem.queue for problem in capacity.problems if problem.cause is ProblemCause.STEP}
    return capacity.engines > 0 and all(pipeline.name in blocked for pipeline in pipelines)


def _steps(engines: Sequence[EngineReport], queues: Sequence[Pipeline]) -> Iterator[StepCapacity]:
    """The steps in the order of the pipelines, then those of other settings."""
    uses: dict[str, list[StepUse]] = {step: [] for queue in queues for step in queue.steps}
    for report in engines:
        for use in report.steps:
            uses.setdefault(use.step, []).append(use)
    for step, of_step in uses.items():
        if of_step:
            yield StepCapacity(
                step,
                capacity=sum(use.capacity for use in of_step),
                busy=sum(use.busy for use in of_step),
                engines=sum(use.problem is None for use in of_step),
                problem=_first_problem(of_step),
            )


def _pulled_steps(
    reports: Sequence[EngineReport], queues: Sequence[Pipeline]
) -> Iterator[PulledStep]:
    for step in dict.fromkeys(queue.pulled for queue in queues if queue.pulled is not None):
        keys = {report.key for report in reports if report.pulled == step}
        yield PulledStep(f"{PULL}{step}", tuple(sorted(keys)))


def _problems(
    reports: Sequence[EngineReport], queues: Sequence[Pipeline], waiting: Collection[str]
) -> Iterator[QueueProblem]:
    served = {name for report in reports if report.workers for name in report.queues}
    known = {queue.name: queue for queue in queues}
    for name in dict.fromkeys([*known, *sorted(waiting)]):
        if name not in served:
            problem = _problem(name, known.get(name), reports, is_waiting=name in waiting)
            if problem is not None:
                yield problem


def _problem(
    name: str, queue: Pipeline | None, reports: Sequence[EngineReport], *, is_waiting: bool
) -> QueueProblem | None:
    """Why a queue is not served; None: because no engine runs, or for lack of documents."""
    steps = () if queue is None else queue.steps
    of_step = _first_problem(use for report in reports for use in report.steps if use.step in steps)
    if of_step is not None:
        return QueueProblem(name, ProblemCause.STEP, of_step)
    if is_waiting and queue is not None and queue.pulled is not None:
        return QueueProblem(name, ProblemCause.NOT_PULLED, queue.pulled)
    has_engines = any(report.pulled is None for report in reports)
    return QueueProblem(name, ProblemCause.NOT_SERVED) if is_waiting and has_engines else None


def _first_problem(uses: Iterator[StepUse] | Sequence[StepUse]) -> str | None:
    return next((use.problem for use in uses if use.problem is not None), None)
