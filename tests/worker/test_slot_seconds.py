"""The seconds of a document: as the engine measures them, without waits for a distant store."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead.model.documents import Claim
from fairlead.worker.sandbox.child_pool import ChildPool
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import JobAnswer, ReadJob
from fairlead.worker.slot import WorkerSlot

CLAIM = Claim("id", 1, "worker", "acme", "a.txt", 1, "0" * 64, 1, 0.0, 0.0, 1)


class ReadyChild:
    """A child of which the test says when it answers, and what."""

    ready = True
    jobs_sent = 0

    def __init__(self) -> None:
        self.answers: list[JobAnswer] = []

    def send(self, job: ReadJob) -> None:
        self.jobs_sent += 1

    def receive(self) -> list[JobAnswer]:
        return self.answers


class OneChild:
    def __init__(self, child: ReadyChild) -> None:
        self.child = child

    def take(self, limits: SandboxLimits, customer: str | None = None) -> Any:
        return self.child


def seconds(
    monkeypatch: pytest.MonkeyPatch, *, passed: float, unheard: float, took: float
) -> float:
    now, child = [1000.0], ReadyChild()
    monkeypatch.setattr("fairlead.worker.slot.time.monotonic", lambda: now[0])
    slot = WorkerSlot(SandboxLimits(), cast("ChildPool", OneChild(child)))
    slot.note_unheard(5.0)  # before the document
    slot.start(CLAIM, ReadJob(b"content", CLAIM.sha256, None))
    now[0] += passed
    slot.note_unheard(unheard)
    child.answers = [JobAnswer(b"{}", took=took)]
    [finished] = slot.receive()
    return finished.seconds


@pytest.mark.parametrize(
    ("passed", "unheard", "took", "expected"),
    [
        (0.5, 0.0, 0.4, 0.5),  # with the way there and back
        (0.5, 0.0, 0.0, 0.5),  # a child cannot lie itself shorter
        (0.5, 0.48, 0.02, 0.02),  # a claim took long meanwhile
        (0.5, 0.48, 0.3, 0.3),  # it worked during the claim
        (0.5, 0.48, 9.0, 0.5),  # nor longer
    ],
)
def test_waits_for_the_store_are_no_work(
    monkeypatch: pytest.MonkeyPatch, passed: float, unheard: float, took: float, expected: float
) -> None:
    measured = seconds(monkeypatch, passed=passed, unheard=unheard, took=took)
    assert measured == pytest.approx(expected)
