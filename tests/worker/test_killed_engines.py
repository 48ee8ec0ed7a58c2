"""Engines killed as a whole, with kill -9: only what was begun pays for it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead import Fairlead
from fairlead.model.documents import Document
from fairlead.model.states import State

pytestmark = [pytest.mark.services, pytest.mark.full]

SETTINGS = {"lease": 3600.0, "max_attempts": 2}

ENGINE = """
import os, signal, sys
from fairlead import Fairlead
from fairlead.worker.slot import WorkerSlot

start = WorkerSlot.start

def start_or_die(slot, claim, job):
    finished = start(slot, claim, job)
    if is_the_end(slot, claim):
        os.kill(os.getpid(), signal.SIGKILL)
    return finished

WorkerSlot.start = start_or_die
with Fairlead(sys.argv[1], settings={"lease": 3600.0, "max_attempts": 2}) as fairlead:
    engine = fairlead.services.engine(1)
    engine.prefetch.learn(0.001)
    engine.prefetch.learn = lambda seconds: None  # all are short, on a machine of any speed
    engine.run(until_idle=True)
"""
DIES_WITH_SOME_LYING_READY = "is_the_end = lambda slot, claim: slot.behind > 0\n" + ENGINE
DIES_OF_ONE_DOCUMENT = "is_the_end = lambda slot, claim: claim.name == 'killer.txt'\n" + ENGINE


def run_engine(script: str, data: Path) -> int:
    return subprocess.run([sys.executable, "-c", script, str(data)], check=False).returncode


def letters(fairlead: Fairlead, number: int) -> list[Document]:
    return fairlead.submit_many("acme", [(b"%d" % n, f"{n}.txt") for n in range(number)])


def test_documents_that_lay_ready_at_every_kill_are_all_read(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings=SETTINGS) as fairlead:
        documents = []
        for _ in range(4):  # twice as often as there are attempts
            documents += letters(fairlead, 60)
            assert run_engine(DIES_WITH_SOME_LYING_READY, tmp_path) == -signal.SIGKILL
            assert fairlead.queue.totals().processing > 1
        fairlead.run_until_idle(workers=2)
        current = [fairlead.document(document.id) for document in documents]
        assert {document.state for document in current} == {State.DONE}
        assert (
            sum(document.attempts - 1 for document in current) <= 4
        )  # one was at work at each kill


def test_a_document_that_kills_its_engine_fails_and_takes_nobody_along(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings=SETTINGS) as fairlead:
        others = letters(fairlead, 5)
        killer = fairlead.submit("acme", b"killer", name="killer.txt")
        others += letters(fairlead, 30)
        deaths = 0
        while run_engine(DIES_OF_ONE_DOCUMENT, tmp_path) == -signal.SIGKILL:
            deaths += 1
            assert deaths <= 3, "it went on killing its engines"
        assert deaths == 3  # once while it was to lie ready, then by its two attempts
        ended = fairlead.document(killer.id)
        assert (ended.state, ended.error, ended.attempts) == (State.FAILED, "worker-lost", 2)
        assert {fairlead.document(other.id).state for other in others} == {State.DONE}
        assert fairlead.store.problems() == []
