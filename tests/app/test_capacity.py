"""Capacity and problems of steps, as engines report them: what each command and page says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.model.engines import StepUse
from fairlead.model.json import from_json
from fairlead.model.pipeline_figures import PipelineList
from fairlead.policy.explain import with_words, words
from fairlead.worker.liveness import worker_name

MISSING = "step crm:post: there is no module crm; install it"
SENTENCE = f"pipeline crm cannot run here: {MISSING}"
SENTENCE_OF_CUSTOMERS = "no worker serves the pipeline crm: it does not start before one does"
READ, CLASSIFY = StepUse("read", 4, 2), StepUse("classify", 8, 3)
BROKEN = StepUse("crm:post", 0, 0, MISSING)
SETTINGS = """
[pipelines.crm]
steps = ["read", "crm:post"]
[pipelines.letters]
steps = ["read", "classify"]
[pipelines.vision]
steps = ["pull:vision"]
"""
NAME_OF_ANOTHER = "from fairlead.worker.liveness import worker_name; print(worker_name(1))"


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    (tmp_path / "fairlead.toml").write_text(SETTINGS)
    with Fairlead(tmp_path) as opened:
        yield opened


def attend(fairlead: Fairlead, *, step: StepUse = BROKEN) -> None:
    queues = ["default", "letters", *(["crm"] if step.problem is None else [])]
    fairlead.store.attend(worker_name(1), 4, queues, [READ, CLASSIFY, step])


def run(fairlead: Fairlead, *command: str) -> Result:
    return CliRunner().invoke(main, [*command, "--data", str(fairlead.folder.path)])


def test_doctor_shows_the_use_of_steps_and_names_a_step_that_cannot_run(
    fairlead: Fairlead,
) -> None:
    attend(fairlead)
    fairlead.submit("acme", b"a", pipeline="crm")
    result = run(fairlead, "doctor")
    assert result.exit_code == 1
    assert "workers that are running: 4\n" in result.stdout
    assert "steps: read 2 of 4 busy, crm:post cannot run, classify 3 of 8 busy" in result.stdout
    assert f"problem  {SENTENCE}\n" in result.stdout
    assert "restart" not in result.stdout
    assert "pull:vision: no program claims its documents" in result.stdout
    attend(fairlead, step=StepUse("crm:post", 2, 0))
    fairlead.store.attend("pull:key1:vision", 1, ["vision"])
    repaired = run(fairlead, "doctor")
    assert repaired.exit_code == 0
    assert "workers that are running: 4\n" in repaired.stdout, "a program that pulls is none"
    assert "pull:vision: claimed by 1 program, key key1" in repaired.stdout


def test_a_step_that_is_being_imported_is_starting(fairlead: Fairlead) -> None:
    attend(fairlead, step=StepUse("crm:post", 0, 0))
    assert "step crm:post is starting\n" in run(fairlead, "pipelines").stdout


def test_doctor_warns_of_a_step_that_runs_in_some_engines_only(fairlead: Fairlead) -> None:
    attend(fairlead)
    fairlead.store.attend("elsewhere:1.1#1", 2, ["crm"], [StepUse("crm:post", 2, 1)])
    result = run(fairlead, "doctor")
    assert result.exit_code == 0
    assert f"warning  in some engines: {MISSING}\n" in result.stdout


def test_doctor_fails_while_documents_wait_and_no_worker_is_there(fairlead: Fairlead) -> None:
    assert run(fairlead, "doctor").exit_code == 0
    fairlead.submit("acme", b"a")
    waiting = run(fairlead, "doctor")
    assert waiting.exit_code == 1
    assert "problem  documents are waiting and no worker is running" in waiting.stdout
    attend(fairlead, step=StepUse("crm:post", 2, 0))
    assert run(fairlead, "doctor").exit_code == 0


def test_documents_for_programs_alone_need_no_worker(fairlead: Fairlead) -> None:
    fairlead.submit("acme", b"a", pipeline="vision")
    result = run(fairlead, "doctor")
    assert result.exit_code == 0
    assert "no program claims its step vision over HTTP; start one" in result.stdout


@pytest.mark.services
def test_dead_engines_are_not_counted(fairlead: Fairlead) -> None:
    """Regression: workers of killed engines counted until their attendance ended."""
    command = [sys.executable, "-c", NAME_OF_ANOTHER]
    dead = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    fairlead.store.attend(dead, 10, ["default"], [READ])
    fairlead.submit("acme", b"a")
    assert fairlead.store.claim(dead) is not None
    assert fairlead.queue.fairness().workers == 10
    result = run(fairlead, "doctor")
    assert result.exit_code == 1, "the document waits for another worker"
    assert "no worker is running" in result.stdout
    assert "workers that are running" not in result.stdout
    assert fairlead.queue.fairness().workers == 0
    assert fairlead.store.engines() == []


def test_engines_of_other_machines_count_while_they_attend(fairlead: Fairlead) -> None:
    fairlead.store.attend("elsewhere:1.1#1", 3, ["default"], [READ])
    assert "workers that are running: 3\n" in run(fairlead, "doctor").stdout


def test_pipelines_lists_the_use_of_steps_and_the_problem(fairlead: Fairlead) -> None:
    attend(fairlead)
    fairlead.submit("acme", b"a", pipeline="crm")
    result = run(fairlead, "pipelines")
    assert "1 (cannot run)" in result.stdout
    assert "step classify 3 of 8 busy\n" in result.stdout
    assert "step pull:vision: no program claims its documents\n" in result.stdout
    assert f"{SENTENCE}\n" in result.stderr
    listed = from_json(PipelineList, run(fairlead, "pipelines", "--json").stdout)
    problems = {pipeline.name: pipeline.problem for pipeline in listed.pipelines}
    assert problems == {"default": None, "crm": SENTENCE, "letters": None, "vision": None}
    assert listed.capacity == fairlead.queue.capacity()


def test_top_shows_the_use_of_steps_and_the_problem(fairlead: Fairlead) -> None:
    attend(fairlead)
    result = run(fairlead, "top", "--once")
    assert result.stdout.startswith("4 workers; 0 waiting")
    assert "steps: read 2 of 4 busy, crm:post cannot run, classify 3 of 8 busy\n" in result.stdout
    assert f"{SENTENCE}\n" in result.stderr


def test_why_names_the_step_for_operators_only(fairlead: Fairlead) -> None:
    """Regression: "it is next: it starts when a worker is free"."""
    attend(fairlead)
    explanation = fairlead.why(fairlead.submit("acme", b"a", pipeline="crm").id)
    shown = with_words(explanation, words, with_others=True)
    assert SENTENCE in [reason.words for reason in shown.reasons]
    assert "next" not in {reason.code for reason in shown.reasons}
    assert shown.forecast is None
    shown = with_words(explanation, words, with_others=False)
    assert SENTENCE_OF_CUSTOMERS in [reason.words for reason in shown.reasons]
    assert "module" not in str(shown)
    assert SENTENCE in run(fairlead, "docs", "why", explanation.id).stdout


def test_why_names_the_step_if_nothing_at_all_can_run(fairlead: Fairlead) -> None:
    broken = StepUse("read", 0, 0, "no reader is there")
    fairlead.store.attend(worker_name(1), 4, [], [broken])
    explanation = fairlead.why(fairlead.submit("acme", b"a").id)
    assert "cannot-run" in {reason.code for reason in explanation.reasons}
    assert explanation.forecast is None
