"""How many documents of a queue are processed at once, from the reports of engines."""

from __future__ import annotations

from fairlead.model.engines import EngineReport, StepUse
from fairlead.model.pipelines import Pipeline
from fairlead.policy.serving import SharedPlaces, serving_of

PIPELINES = (
    Pipeline("default"),
    Pipeline("invoices", ("read", "crm:fields", "pull:vision", "crm:post")),
)


def report(engine: str, workers: int, *queues: str, **steps: int) -> EngineReport:
    uses = tuple(StepUse(step.replace("_", ":"), number) for step, number in steps.items())
    return EngineReport(engine, workers, queues, uses)


def test_without_steps_the_workers_count() -> None:
    both = serving_of([report("a", 2, "default"), report("b", 3, "default")], PIPELINES)
    assert both.servers == (SharedPlaces(5, frozenset(["default"])),)
    assert both.queues == {"default": 5}


def test_the_narrowest_step_of_a_queue_decides() -> None:
    engine = report("a", 4, "default", "invoices", read=4, crm_fields=1, crm_post=8)
    assert serving_of([engine], PIPELINES).queues == {"default": 4, "invoices": 1}
    two = serving_of([engine, engine], PIPELINES)
    assert two.queues == {"default": 8, "invoices": 2}
    assert two.places(["invoices"]) == 8


def test_a_step_with_a_concurrency_lets_in_more_documents_than_there_are_workers() -> None:
    engine = report("a", 2, "default", "invoices", read=2, crm_fields=8, crm_post=8)
    wide = EngineReport("a", 2, ("default", "invoices"), engine.steps[1:])
    known = serving_of([wide], PIPELINES)
    assert known.places(["invoices"]) == known.queues["invoices"] == 8
    assert known.queues["default"] == 2


def test_a_step_that_cannot_run_closes_its_queue_only() -> None:
    engine = report("a", 4, "default", "invoices", read=4, crm_fields=0)
    known = serving_of([engine], PIPELINES)
    assert known.served == {"default"}
    assert known.sharing("invoices") == {"invoices"}


def test_programs_that_pull_compete_with_nobody_else() -> None:
    puller = report("pull:key:vision", 1, "invoices/pull:vision")
    known = serving_of([report("a", 4, "default", "invoices"), puller], PIPELINES)
    assert known.sharing("invoices/pull:vision") == {"invoices/pull:vision"}
    assert known.sharing("default") == {"default", "invoices"}
    assert known.places(["invoices/pull:vision"]) == 1


def test_an_engine_without_workers_serves_nothing() -> None:
    assert serving_of([report("a", 0, "default")], PIPELINES).served == frozenset()
