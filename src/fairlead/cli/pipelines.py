"""`fairlead pipelines`: steps, quotas and figures of all pipelines."""

from __future__ import annotations

import time

import click

from fairlead.cli.options import json_option
from fairlead.cli.output import print_json, print_table
from fairlead.cli.target import Target, open_target, target_options
from fairlead.model.pipeline_figures import PipelineFigures, PipelineList

_COLUMNS = ["pipeline", "steps", "waiting", "processing", "limit", "a minute", "failed lately"]


@click.command("pipelines")
@target_options
@json_option
def pipelines_command(*, target: Target, as_json: bool) -> None:
    """List pipelines with their steps, queue, use of quotas and failures."""
    with open_target(target) as installation:
        pipelines = installation.queue.pipelines()
    if as_json:
        print_json(PipelineList(pipelines))
        return
    now = time.time()
    print_table(_COLUMNS, [_row(pipeline, now) for pipeline in pipelines], empty="no pipelines")


def _row(pipeline: PipelineFigures, now: float) -> list[str]:
    rate = pipeline.per_minute(now)
    failures = (f"{code} {number:,}" for code, number in pipeline.failures.items())
    return [
        pipeline.name,
        ", ".join(pipeline.steps) or "not in these settings",
        f"{pipeline.waiting:,}" + (" (nobody serves it)" if pipeline.is_stuck else ""),
        _processing(pipeline),
        _limit(pipeline),
        "" if rate is None else f"{rate:,.1f}",
        ", ".join(failures),
    ]


def _processing(pipeline: PipelineFigures) -> str:
    most = pipeline.max_running
    return f"{pipeline.processing:,}" + ("" if most is None else f" of {most:,}")


def _limit(pipeline: PipelineFigures) -> str:
    used_up = " (used up)" if pipeline.open_at is not None else ""
    return (pipeline.limit or "") + used_up
