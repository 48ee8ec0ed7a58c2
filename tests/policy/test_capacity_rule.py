"""What engines report, summed up by step, and the queues that cannot run."""

from __future__ import annotations

import pytest

from fairlead.model.capacity import Capacity, ProblemCause, PulledStep, QueueProblem, StepCapacity
from fairlead.model.engines import EngineReport, StepUse
from fairlead.model.pipelines import Pipeline
from fairlead.policy.capacity import capacity, is_blocked

MISSING = "step crm:post: there is no module crm"
PLAIN = Pipeline("default")
INVOICES = Pipeline("invoices", ("read", "classify"))
CRM = Pipeline("crm", ("read", "crm:post"))
VISION = Pipeline("vision", ("read", "pull:vision", "crm:post"))
ALL = (PLAIN, INVOICES, CRM, VISION)
READ = StepUse("read", 4, 3)
BROKEN = StepUse("crm:post", 0, 0, MISSING)


def engine(*queues: str, name: str = "host:1.1#1", steps: tuple[StepUse, ...] = ()) -> EngineReport:
    return EngineReport(name, 4, queues, steps or (READ,))


def causes(found: Capacity) -> dict[str, ProblemCause]:
    return {problem.queue: problem.cause for problem in found.problems}


def test_workers_and_steps_are_summed_over_engines() -> None:
    first = engine("default", "invoices", steps=(StepUse("classify", 8, 3), READ))
    second = engine("default", name="host:2.2#1", steps=(StepUse("read", 2, 0),))
    found = capacity([first, second], [PLAIN, INVOICES])
    assert (found.workers, found.engines) == (8, 2)
    assert found.steps == (
        StepCapacity("read", capacity=6, busy=3, engines=2),
        StepCapacity("classify", capacity=8, busy=3, engines=1),
    ), "in the order of the pipelines"


def test_a_step_of_other_settings_is_listed_too() -> None:
    found = capacity([engine("default", steps=(READ, StepUse("later", 1)))], [PLAIN])
    assert [step.step for step in found.steps] == ["read", "later"]


def test_programs_that_pull_are_no_workers() -> None:
    reports = [engine("default"), EngineReport("pull:key1:vision", 1, ("vision/pull:vision",))]
    found = capacity(reports, [PLAIN, VISION], {"vision/pull:vision"})
    assert (found.workers, found.engines) == (4, 1)
    assert found.pulled == (PulledStep("pull:vision", ("key1",)),)
    assert found.problems == ()


def test_a_step_that_cannot_run_stops_only_its_queues() -> None:
    found = capacity([engine("default", "vision", steps=(READ, BROKEN))], [PLAIN, CRM, VISION])
    assert found.problems == (
        QueueProblem("crm", ProblemCause.STEP, MISSING),
        QueueProblem("vision/crm:post", ProblemCause.STEP, MISSING),
    )
    assert found.sentence_for("crm") == f"pipeline crm cannot run here: {MISSING}"
    assert found.sentence_for("vision/crm:post") == f"pipeline vision cannot run here: {MISSING}"
    assert found.sentence_for("default") is None
    assert found.steps[1] == StepCapacity("crm:post", 0, 0, engines=0, problem=MISSING)


def test_a_pipeline_that_another_engine_serves_has_no_problem() -> None:
    other = engine("crm", name="host:2.2#1", steps=(READ, StepUse("crm:post", 2, 1)))
    found = capacity([engine("default", steps=(READ, BROKEN)), other], [PLAIN, CRM])
    assert found.problems == ()
    assert found.steps[1] == StepCapacity("crm:post", 2, 1, engines=1, problem=MISSING)


@pytest.mark.parametrize(
    ("reports", "waiting", "expected"),
    [
        ([], {"default", "crm"}, {}),
        ([engine("default")], {"default"}, {}),
        ([engine("default")], {"default", "crm"}, {"crm": ProblemCause.NOT_SERVED}),
        ([engine("default")], {"removed"}, {"removed": ProblemCause.NOT_SERVED}),
        ([engine("default", "vision")], set(), {}),
        (
            [engine("default", "vision")],
            {"vision/pull:vision"},
            {"vision/pull:vision": ProblemCause.NOT_PULLED},
        ),
        ([], {"vision/pull:vision"}, {"vision/pull:vision": ProblemCause.NOT_PULLED}),
        ([EngineReport("host:1.1#1", 0, ("default",))], {"default"}, {"default": "not-served"}),
    ],
)
def test_a_queue_that_nobody_serves_is_a_problem_while_documents_wait_in_it(
    reports: list[EngineReport], waiting: set[str], expected: dict[str, ProblemCause]
) -> None:
    assert causes(capacity(reports, ALL, waiting)) == expected


def test_an_installation_is_blocked_if_no_pipeline_can_run() -> None:
    nothing = capacity([engine(steps=(READ, BROKEN))], [CRM])
    assert is_blocked(nothing, [CRM])
    one = capacity([engine("default", steps=(READ, BROKEN))], [PLAIN, CRM])
    assert not is_blocked(one, [PLAIN, CRM])
    assert not is_blocked(capacity([], [CRM]), [CRM]), "no engine is a choice, as of serve"
