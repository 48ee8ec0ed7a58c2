"""The end of a claim whose step did not return: the document is refused, delayed, or fails.

The engine uses this rule for its own steps, the server for steps that are pulled over HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from fairlead.model.documents import Failed
from fairlead.policy.failures import SENTENCES, STEP_FAILED
from fairlead.policy.retry import RetryRule, pause_until_later
from fairlead.steps.outcomes import Later, Outcome, Returned, StepOptions, StepRefused, cause_of
from fairlead.worker.pipeline_run import PipelineRun
from fairlead.worker.result_saver import Delay

_log = logging.getLogger(__name__)


def unknown_pipelines(returned: Returned, known: Iterable[str]) -> str | None:
    """Why the result is invalid, if its parts name pipelines that the settings do not have."""
    names = {part.pipeline for part in returned.parts if part.pipeline} - set(known)
    if not names:
        return None
    listed = ", ".join(sorted(map(repr, names)))
    return f"a part must name a pipeline of the settings; got {listed}"


def end_of_step(
    run: PipelineRun, outcome: Outcome, options: StepOptions, retry: RetryRule, now: float
) -> Failed | Delay:
    """How the claim ends; the run counts the attempt. `retry` has the backoff between attempts."""
    if isinstance(outcome, StepRefused):
        run.note_refusal()
        return Failed(outcome.code, outcome.message, run.interim.kind)
    if isinstance(outcome, Later):
        return _retry_later(run, outcome.seconds, options, now)
    cause = f"step {run.next_step}: {cause_of(outcome)}"
    _log.warning("fairlead: document %s: %s", run.claim.id, cause)
    run.note_failure(cause)
    rule = RetryRule(options.attempts, retry.first_delay, retry.longest_delay)
    delay = rule.delay(run.interim.attempts)
    if delay is None:
        return _failed(run)
    return Delay(delay, STEP_FAILED, SENTENCES[STEP_FAILED])


def _retry_later(
    run: PipelineRun, seconds: float, options: StepOptions, now: float
) -> Failed | Delay:
    since = run.interim.later_since
    waited = 0.0 if since is None else max(0.0, now - since)
    pause = pause_until_later(seconds, waited)
    if waited + pause > options.retry_for:
        run.note_failure(
            f"step {run.next_step}: it asked {run.interim.later + 1} times to be called again "
            f"later, for more than {options.retry_for:g} s in all (retry_for)"
        )
        return _failed(run)
    run.note_delay(now)
    return Delay(pause)


def _failed(run: PipelineRun) -> Failed:
    interim = run.interim
    return Failed(STEP_FAILED, SENTENCES[STEP_FAILED], interim.kind, cause=interim.cause)
