"""`fairlead worker` as a real process: what it does when it is told to end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from locked_database import BUSY_LONG, locked

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.demo.samples import samples
from fairlead.model.documents import EventKind
from fairlead.model.states import State

pytestmark = pytest.mark.services

PROGRAM = ("-m", "fairlead")


@contextmanager
def worker(
    data: Path, *options: str, program: tuple[str, ...] = PROGRAM
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, *program, "worker", "--data", str(data), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def until(fairlead: Fairlead, condition: Callable[[], bool]) -> None:
    """Look again after each commit of whoever; the test's own time limit bounds it."""
    seen = -1
    while not condition():
        while (version := fairlead.store.changes.version()) == seen:
            select.select([], [], [], 0.005)
        seen = version


def children(pid: int) -> list[int]:
    """Those of the process, and theirs: readers are forked by a child of the worker."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    own = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return own + [descendant for child in own for descendant in children(child)]


def has_claimed(fairlead: Fairlead) -> bool:
    return any(event.kind is EventKind.CLAIMED for event in fairlead.store.events(limit=10_000))


def long_documents(number: int) -> list[tuple[bytes, str]]:
    sample = next(samples(1, seed=4, pages=(150, 150)))
    return [(sample.content, f"{index}-{sample.name}") for index in range(number)]


def test_sigterm_finishes_what_runs_and_claims_no_more(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        fairlead.submit_many("acme", long_documents(60))
        with worker(tmp_path) as process:
            until(fairlead, lambda: has_claimed(fairlead))
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate()
        assert process.returncode == 0
        assert "finishing running documents" in errors
        documents = fairlead.documents(limit=100).items
        states = {document.state for document in documents}
        assert State.PROCESSING not in states
        assert State.DONE in states
        assert State.WAITING in states
        assert all(document.attempts == (document.state is State.DONE) for document in documents)


def test_a_second_signal_stops_at_once_and_gives_back(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        documents = fairlead.submit_many("acme", long_documents(4))
        with worker(tmp_path, "--workers", "1") as process:
            until(fairlead, lambda: has_claimed(fairlead))
            for child in children(process.pid):
                os.kill(child, signal.SIGSTOP)  # what runs would never finish
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            while "finishing running" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGTERM)
            process.communicate()
        assert process.returncode == 1
        states = [fairlead.document(document.id).state for document in documents]
        assert set(states) <= {State.WAITING, State.DONE}
        assert State.WAITING in states
        assert fairlead.queue.totals().processing == 0
        fairlead.run_until_idle(workers=1)
        assert {fairlead.document(document.id).attempts for document in documents} == {1}


def test_no_lock_of_another_process_keeps_a_worker_from_ending(tmp_path: Path) -> None:
    """It waits for the lock in the thread that hears the signal."""
    with Fairlead(tmp_path) as fairlead:
        document = fairlead.submit("acme", b"hello", name="hello.txt")
        with locked(tmp_path), worker(tmp_path, program=BUSY_LONG) as process:
            assert process.stderr is not None
            while "waits for a lock" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGTERM)
            process.communicate()
        assert process.returncode == 0
        fairlead.run_until_idle(workers=1)
        assert fairlead.document(document.id).attempts == 1
        assert fairlead.text(document.id) == "hello"


def test_a_killed_server_leaves_no_children_and_no_lock(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        documents = fairlead.submit_many("acme", long_documents(6))
        with worker(tmp_path) as process:
            until(fairlead, lambda: has_claimed(fairlead))
            pids = [os.pidfd_open(child) for child in children(process.pid)]
            process.kill()
            process.communicate()
        for descriptor in pids:
            select.select([descriptor], [], [])  # readable when the child is gone
            os.close(descriptor)
        assert fairlead.folder.server_pid() is None
        fairlead.run_until_idle(workers=2)
        assert {fairlead.document(document.id).state for document in documents} == {State.DONE}


def test_a_waiting_server_takes_what_another_process_submits(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead, worker(tmp_path, "--quiet") as process:
        first = fairlead.submit("acme", b"first", name="first.txt")
        fairlead.wait([first.id])  # from here on the server has nothing to do
        document = fairlead.submit("acme", b"hello", name="hello.txt")
        fairlead.wait([document.id])
        assert fairlead.text(document.id) == "hello"
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 0


def test_the_worker_restores_the_signal_handlers_of_before(tmp_path: Path) -> None:
    """Else a process that ran the command could not be interrupted any more."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    result = CliRunner().invoke(main, ["worker", "--data", str(tmp_path), "--until-idle"])
    assert result.exit_code == 0, result.output
    assert [signal.getsignal(number) for number in numbers] == before
