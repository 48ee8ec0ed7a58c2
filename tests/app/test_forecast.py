"""When a document will start, and in which language that is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from storekit import Clock

from fairlead import Fairlead
from fairlead.cli import main


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
