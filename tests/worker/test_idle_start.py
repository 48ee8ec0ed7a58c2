"""An idle engine starts a document because it is woken, not because it polls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from fairlead import Fairlead
from fairlead.model.documents import Claim
from fairlead.model.pipelines import ClaimRequest
from fairlead.model.states import State
from fairlead.service import run_in_thread
from fairlead.storage.sqlite import inotify
from fairlead.worker import engine as local

pytestmark = pytest.mark.services

TIMEOUT = 60.0


@pytest.fixture
def fairlead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fairlead]:
    """An installation in which nothing is polled for within the time of a test."""
    monkeypatch.setattr(inotify, "WATCHED_POLL_SECONDS", 1000.0)
    monkeypatch.setattr(local, "CHECK_SECONDS", 1000.0)
    with Fairlead(tmp_path / "data") as installation:
        yield installation


def run_while(fairlead: Fairlead, act: Callable[[], object]) -> None:
    """Run an engine until it is idle for the first time; then act, and stop it."""
    idle = Event()

    def note_idle() -> None:
        if engine._has_idle:
            idle.set()

    engine = fairlead.services.engine(1, on_tick=note_idle)
    ended = run_in_thread("engine of a test", engine.run)
    try:
        assert idle.wait(TIMEOUT)
        act()
    finally:
        engine.stop()
        ended.result(TIMEOUT)


def test_a_submission_of_the_same_process_wakes_it(fairlead: Fairlead) -> None:
    def submit() -> None:
        document = fairlead.submit("acme", b"letter", name="letter.txt")
        fairlead.wait([document.id], timeout=TIMEOUT)

    run_while(fairlead, submit)


def test_a_submission_of_another_process_wakes_it(fairlead: Fairlead) -> None:
    """Another store has a connection and a watch of its own, as another process has."""

    def submit() -> None:
        with Fairlead(fairlead.folder.path) as other:
            document = other.submit("acme", b"letter", name="letter.txt")
            other.wait([document.id], timeout=TIMEOUT)

    run_while(fairlead, submit)


def test_a_commit_between_a_claim_in_vain_and_the_sleep_is_not_missed(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_requests = fairlead.store.claim_requests
    submitted: list[str] = []

    def claim_and_submit(requests: Sequence[ClaimRequest]) -> tuple[list[Claim], float]:
        claims, opens_in = claim_requests(requests)
        if not claims and not submitted:
            submitted.append(fairlead.submit("acme", b"letter", name="letter.txt").id)
        return claims, opens_in

    monkeypatch.setattr(fairlead.store, "claim_requests", claim_and_submit)
    run_while(fairlead, lambda: fairlead.wait(submitted, timeout=TIMEOUT))
    assert fairlead.document(submitted[0]).state is State.DONE


def test_commits_do_not_wake_an_engine_without_idle_workers(fairlead: Fairlead) -> None:
    engine = fairlead.services.engine(1)
    wakeups: list[str] = []
    engine._wake_pipe.wake = lambda: wakeups.append("woken")  # type: ignore[method-assign]
    fairlead.submit("acme", b"letter", name="letter.txt")
    assert wakeups == []
    engine._has_idle = True
    fairlead.submit("acme", b"another", name="another.txt")
    assert wakeups
    engine.close()
