"""When a document will start, and in which language that is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from storekit import DONE, Clock

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.model.engines import StepUse
from fairlead.model.explanations import CustomerAhead


def waiting(folder: Path, *, workers: int = 2) -> tuple[Fairlead, str]:
    """A folder in which nobody is free, and the id of the last of twenty documents."""
    fairlead = Fairlead(folder, clock=Clock())
    documents = fairlead.submit_many("acme", [b"text %d" % number for number in range(20)])
    if workers:
        fairlead.store.attend("engine", workers)
        fairlead.store.claim_for([f"worker {number}" for number in range(workers)])
    return fairlead, documents[-1].id


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_a_waiting_document_has_a_forecast_in_times(tmp_path: Path, policy: str) -> None:
    fairlead, last = waiting(tmp_path)
    with fairlead:
        fairlead.queue.use_policy(policy)
        forecast = fairlead.why(last).forecast
        assert forecast is not None
        assert fairlead.store.now() <= forecast.low <= forecast.expected <= forecast.high
        assert forecast.high > forecast.low
        running = fairlead.documents(state="processing").items[0]
        assert fairlead.why(running.id).forecast is None


def test_paused_or_without_workers_nobody_can_tell(tmp_path: Path) -> None:
    fairlead, last = waiting(tmp_path, workers=0)
    with fairlead:
        assert fairlead.why(last).forecast is None
        fairlead.store.attend("engine", 2)
        assert fairlead.why(last).forecast is not None
        fairlead.customers.pause("acme")
        assert fairlead.why(last).forecast is None


PULLED = {"vision": {"steps": ["read", "pull:vision"]}}
QUEUE = "vision/pull:vision"


def test_nothing_is_promised_for_documents_that_nobody_serves(tmp_path: Path) -> None:
    """Regression: the end was five minutes ahead, though four of seven could never start."""
    settings = {"pipelines": PULLED}
    with Fairlead(tmp_path, clock=Clock(), settings=settings) as fairlead:
        fairlead.store.attend("engine", 2, ["default", "vision"])
        fairlead.submit_many("acme", [b"text"] * 3)
        assert fairlead.customers.standing("acme").expected_end is not None
        fairlead.submit("acme", b"text", pipeline="vision")
        standing = fairlead.customers.standing("acme")
        assert (standing.expected_end, standing.waits_for) == (None, "worker"), (
            "its first step can run, its second one cannot"
        )
        fairlead.store.attend("pull:key:vision", 1, [QUEUE])
        standing = fairlead.customers.standing("acme")
        assert standing.expected_end is not None
        assert standing.waits_for is None
        fairlead.customers.pause("acme")
        standing = fairlead.customers.standing("acme")
        assert (standing.expected_end, standing.waits_for) == (None, "resume")


def test_in_a_queue_that_nobody_serves_only_its_own_documents_count(tmp_path: Path) -> None:
    """Regression: position 3,001 of 1,408, behind a customer with nothing in that queue."""
    settings = {"pipelines": {"vision": {"steps": ["pull:vision"]}}}
    with Fairlead(tmp_path, clock=Clock(), settings=settings) as fairlead:
        fairlead.store.attend("engine", 2, ["default"])
        fairlead.submit_many("Harbour", [b"text"] * 30)
        for customer in ("acme", "globex"):
            document = fairlead.submit(customer, b"text", pipeline="vision")
        why = fairlead.why(document.id)
        assert why.position == 2
        assert why.ahead is not None
        assert why.ahead.most == (CustomerAhead("acme", 1),)
        assert why.forecast is None
        assert "not-served" in [reason.code for reason in why.reasons]


def test_a_step_of_concurrency_one_decides_when_its_queue_moves(tmp_path: Path) -> None:
    """Regression: the forecast divided by four workers, and said a quarter of the time."""
    settings = {"pipelines": {"invoices": {"steps": ["crm:fields"]}}}
    clock = Clock()
    with Fairlead(tmp_path, clock=clock, settings=settings) as fairlead:
        uses = (StepUse("read", 4), StepUse("crm:fields", 1))
        fairlead.store.attend("engine", 4, ["default", "invoices"], uses)
        documents = fairlead.submit_many("acme", [b"text"] * 60, pipeline="invoices")
        for _ in range(20):
            [claim] = fairlead.store.claim_for(["worker"], pipelines=["invoices"])
            clock.advance(10)
            fairlead.store.attend("engine", 4, ["default", "invoices"], uses)
            fairlead.store.finish(claim, DONE._replace(seconds=10.0))
        forecast = fairlead.why(documents[-1].id).forecast
        assert forecast is not None
        assert 330 < forecast.expected - clock.now < 460


def test_a_delayed_document_ends_after_its_time(tmp_path: Path) -> None:
    with Fairlead(tmp_path, clock=Clock()) as fairlead:
        fairlead.store.attend("engine", 2)
        fairlead.submit("acme", b"text", not_before=3600.0)
        end = fairlead.customers.standing("acme").expected_end
        assert end is not None
        assert end > fairlead.store.now() + 3600


def test_why_says_it_in_the_language_of_the_environment(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        documents = fairlead.submit_many("acme", [b"text"] * 5)
        fairlead.store.attend("engine", 1)
        fairlead.store.claim("worker")
    command = ["docs", "why", documents[-1].id, "--data", str(tmp_path)]

    def why(*options: str, **environment: str) -> str:
        return CliRunner().invoke(main, [*command, *options], env=environment).stdout

    assert "expected to start" in why()
    assert "davor: 3 Dokumente desselben Kunden" in why(LC_ALL="de_AT.UTF-8")
    assert "Beginn" in why(LC_ALL="de_AT.UTF-8")
    assert "przed nim: 3 dokumenty" in why(LC_ALL="de_AT.UTF-8", FAIRLEAD_LANGUAGE="pl")
    shown = json.loads(why("--json", LC_ALL="de_AT.UTF-8"))
    assert set(shown["forecast"]) == {"expected", "low", "high"}
    assert "before it" in " ".join(reason["words"] for reason in shown["reasons"])
    refused = CliRunner().invoke(main, command, env={"FAIRLEAD_LANGUAGE": "klingon"})
    assert refused.exit_code == 2
    assert "en, es, pt, pl, de" in refused.stderr
