"""`fairlead pipelines`: steps, quotas and figures of all pipelines."""

from __future__ import annotations

import time

import click

from fairlead.cli.options import json_option
from fairlead.cli.output import (
    print_json,
    print_lines,
    print_problems,
    print_table,
    pulled_words,
    safe,
    step_words,
)
from fairlead.cli.target import Target, open_target, target_options
from fairlead.model.capacity import Capacity, ProblemCause
from fairlead.model.pipeline_figures import PipelineFigures, PipelineList

_COLUMNS = ["pipeline", "steps", "waiting", "processing", "limit", "a minute", "failed lately"]


@click.command("pipelines")
@target_options
@json_option
def pipelines_command(*, target: Target, as_json: bool) -> None:
    """List pipelines with their steps, queue, use of quotas and failures, and the use of steps."""
    with open_target(target) as installation:
        pipelines, capacity = installation.queue.pipelines(), installation.queue.capacity()
    if as_json:
        print_json(PipelineList(pipelines, capacity))
        return
    now = time.time()
    rows = [_row(pipeline, capacity, now) for pipeline in pipelines]
    print_table(_COLUMNS, rows, empty="no pipelines")
    print_lines(safe(f"step {step_words(step)}") for step in capacity.steps)
    print_lines(safe(f"step {pulled_words(pulled)}") for pulled in capacity.pulled)
    print_problems(capacity)


def _row(pipeline: PipelineFigures, capacity: Capacity, now: float) -> list[str]:
    rate = pipeline.per_minute(now)
    failures = (f"{code} {number:,}" for code, number in pipeline.failures.items())
    return [
        pipeline.name,
        ", ".join(pipeline.steps) or "not in these settings",
        f"{pipeline.waiting:,}{_hindrance(pipeline, capacity)}",
        _processing(pipeline),
        _limit(pipeline),
        "" if rate is None else f"{rate:,.1f}",
        ", ".join(failures),
    ]


def _hindrance(pipeline: PipelineFigures, capacity: Capacity) -> str:
    problem = capacity.problem_of(pipeline.name)
    if problem is not None and problem.cause is ProblemCause.STEP:
        return " (cannot run)"
    return " (nobody serves it)" if pipeline.is_stuck else ""


def _processing(pipeline: PipelineFigures) -> str:
    most = pipeline.max_running
    return f"{pipeline.processing:,}" + ("" if most is None else f" of {most:,}")


def _limit(pipeline: PipelineFigures) -> str:
    used_up = " (used up)" if pipeline.open_at is not None else ""
    return (pipeline.limit or "") + used_up
