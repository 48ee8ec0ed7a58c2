"""What follows when a step did not return: the document is refused, tried again later, or fails.

The engine decides by this for its own steps, and the server for steps that are pulled over HTTP.
"""

from __future__ import annotations

import logging

from fairlead.model.documents import Failed
from fairlead.policy.failures import SENTENCES, STEP_FAILED
from fairlead.policy.retry import RetryRule
from fairlead.steps.outcomes import (
    Died,
    Invalid,
    Later,
    Outcome,
    Raised,
    StepOptions,
    StepRefused,
    TimedOut,
)
from fairlead.worker.pipeline_run import PipelineRun
from fairlead.worker.result_writer import Delay

_log = logging.getLogger(__name__)


def end_of_step(
    run: PipelineRun, outcome: Outcome, options: StepOptions, retry: RetryRule
) -> Failed | Delay:
    """How the claim ends; the run counts the attempt. `retry` has the delays between attempts."""
    if isinstance(outcome, StepRefused):
        run.refused()
        return Failed(outcome.code, outcome.message, run.interim.kind)
    if isinstance(outcome, Later):
        return _called_later(run, outcome.seconds, options)
    cause = f"step {run.next_step}: {_cause(outcome)}"
    _log.warning("fairlead: document %s: %s", run.claim.id, cause)
    run.failed(cause)
    rule = RetryRule(options.attempts, retry.first_delay, retry.longest_delay)
    delay = rule.delay(run.interim.attempts)
    if delay is None:
        return _given_up(run)
    return Delay(delay, STEP_FAILED, SENTENCES[STEP_FAILED])


def _called_later(run: PipelineRun, seconds: float, options: StepOptions) -> Failed | Delay:
    if run.interim.waited + seconds > options.retry_for:
        run.failed(
            f"step {run.next_step}: it asked to be called again later for more than "
            f"{options.retry_for:g} s (retry_for)"
        )
        return _given_up(run)
    run.delayed(seconds)
    return Delay(seconds)


def _given_up(run: PipelineRun) -> Failed:
    interim = run.interim
    return Failed(STEP_FAILED, SENTENCES[STEP_FAILED], interim.kind, cause=interim.cause)


def _cause(outcome: Outcome) -> str:
    """For operators, with the traceback where there is one."""
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
