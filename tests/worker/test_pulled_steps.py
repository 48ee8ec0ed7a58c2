"""The engine and pulled steps: it moves documents to their queue, and takes them back behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead import Fairlead
from fairlead.model.documents import Claim, Moved
from fairlead.model.pipelines import Pipeline
from fairlead.model.results import Interim, decode_interim
from fairlead.model.states import State

pytestmark = pytest.mark.services

STEPS = """
def before(job):
    return {"before": job.text}

def after(job):
    return {"after": sorted(job.data)}
"""
PIPELINES = {
    "read": {"steps": ["read", "pull:x"]},
    "around": {"steps": ["pulled_steps:before", "pull:x", "pulled_steps:after"]},
    "first": {"steps": ["pull:x", "pulled_steps:after"]},
}


@pytest.fixture
def fairlead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fairlead]:
    (tmp_path / "pulled_steps.py").write_text(STEPS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    settings = {"pipelines": PIPELINES, "workers": 1}
    with Fairlead(tmp_path / "data", settings=settings) as installation:
        yield installation
        assert installation.store.problems() == []


def pulled(fairlead: Fairlead, queue: str) -> Claim:
    [claim] = fairlead.store.claim_for(["puller"], pipelines=[queue])
    return claim


def interim_of(claim: Claim) -> Interim:
    assert claim.interim is not None
    return decode_interim(claim.interim)


def test_a_document_waits_for_a_pulled_step_with_what_was_read(fairlead: Fairlead) -> None:
    document = fairlead.submit("acme", b"two words", pipeline="read")
    fairlead.run_until_idle()
    waiting = fairlead.document(document.id)
    assert (waiting.state, waiting.attempts) == (State.WAITING, 0)
    claim = pulled(fairlead, "read/pull:x")
    interim = interim_of(claim)
    assert (interim.done, interim.kind, claim.attempts) == (1, "text", 1)
    assert interim.text is not None
    assert interim.text.content == b"two words"


def test_the_engine_goes_on_behind_a_pulled_step(fairlead: Fairlead) -> None:
    document = fairlead.submit("acme", b"two words", pipeline="around")
    fairlead.run_until_idle()
    claim = pulled(fairlead, "around/pull:x")
    interim = interim_of(claim)
    assert interim.done == 1
    steps = interim.steps
    moved = Interim(steps, 2, data=interim.data, settled=interim.settled)
    fairlead.store.finish(claim, Moved("around/pulled_steps:after", moved))
    fairlead.run_until_idle()
    done = fairlead.document(document.id)
    assert (done.state, done.attempts) == (State.DONE, 1)
    assert fairlead.result(document.id).data == {"before": "", "after": ["before"]}


def test_a_pipeline_that_begins_with_a_pulled_step_needs_no_engine(fairlead: Fairlead) -> None:
    document = fairlead.submit("acme", b"two words", pipeline="first")
    fairlead.run_until_idle()
    assert fairlead.document(document.id).state is State.WAITING
    assert pulled(fairlead, "first").id == document.id


def test_a_changed_list_of_steps_starts_over(fairlead: Fairlead) -> None:
    document = fairlead.submit("acme", b"two words", pipeline="around")
    fairlead.run_until_idle()
    claim = pulled(fairlead, "around/pull:x")
    other = Interim(("pulled_steps:other", "pull:x", "pulled_steps:after"), 2)
    fairlead.store.finish(claim, Moved("around/pulled_steps:after", other))
    fairlead.run_until_idle()
    assert fairlead.document(document.id).state is State.WAITING
    assert interim_of(pulled(fairlead, "around/pull:x")).done == 1


def test_why_and_the_list_of_pipelines_say_that_nobody_serves_the_step(fairlead: Fairlead) -> None:
    document = fairlead.submit("acme", b"two words", pipeline="read")
    fairlead.run_until_idle()
    fairlead.store.attend("engine", 1, ["default", "read"])
    reasons = {reason.code: reason.params for reason in fairlead.why(document.id).reasons}
    assert reasons["not-served"] == {"pipeline": "read/pull:x"}
    rows = {row.name: row for row in fairlead.queue.pipelines()}
    assert rows["read/pull:x"].is_stuck
    assert rows["read/pull:x"].steps == ("pull:x",)
    assert rows["read"].steps == ("read", "pull:x")
    assert rows["read"].served


@pytest.mark.parametrize(
    ("steps", "queues"),
    [
        (["read"], {"p": ["read"]}),
        (["read", "a:b", "pull:x"], {"p": ["read", "a:b"], "p/pull:x": ["pull:x"]}),
        (["pull:x", "pull:y"], {"p": ["pull:x"], "p/pull:y": ["pull:y"]}),
        (["pull:x", "a:b", "c:d"], {"p": ["pull:x"], "p/a:b": ["a:b", "c:d"]}),
    ],
)
def test_a_pulled_step_has_a_queue_of_its_own(steps: Sequence[str], queues: dict[str, Any]) -> None:
    pipeline = Pipeline("p", tuple(steps), "15/s", 8)
    assert {queue.name: list(queue.steps) for queue in pipeline.queues} == queues
    assert {(queue.limit, queue.max_running) for queue in pipeline.queues} == {("15/s", 8)}
    places = [pipeline.queue_of(done) for done in range(len(steps))]
    assert places == [name for name, own in queues.items() for _ in own]
