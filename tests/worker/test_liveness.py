"""Who is known to be dead: only those of whom this machine can be sure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead import Fairlead
from fairlead.worker.liveness import is_known_dead, worker_name

NAME_OF_ANOTHER = "from fairlead.worker.liveness import worker_name; print(worker_name(1))"


def test_the_living_are_not_dead() -> None:
    assert not is_known_dead(worker_name(1))
    assert worker_name(1) != worker_name(2)


@pytest.mark.services
def test_a_process_that_ended_is_dead() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NAME_OF_ANOTHER], capture_output=True, text=True, check=True
    )
    assert is_known_dead(ended.stdout.strip())


def test_a_pid_that_was_given_again_does_not_hide_the_death() -> None:
    machine, _, rest = worker_name(1).partition(":")
    pid, _, started = rest.partition(".")
    earlier = int(started.partition("#")[0]) - 1
    assert is_known_dead(f"{machine}:{pid}.{earlier}#1")


@pytest.mark.parametrize("name", ["", "slow", "elsewhere-1234abcd:1.1#1", "a:b.c#d"])
def test_workers_of_other_machines_are_not_known_dead(name: str) -> None:
    assert not is_known_dead(name)


def test_a_process_that_another_user_hides_is_not_known_to_be_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = worker_name(1).partition(":")[0]

    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    assert not is_known_dead(f"{machine}:{2**22 + 1}.5#1")  # a pid that no process can have


@pytest.mark.services
def test_dead_engines_no_longer_attend(tmp_path: Path) -> None:
    """Regression: they counted until their attendance ended, up to a lease later."""
    command = [sys.executable, "-c", NAME_OF_ANOTHER]
    dead = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    with Fairlead(tmp_path) as fairlead:
        living = [worker_name(1), "elsewhere:1.1#1", "pull:key:step"]
        for engine in (dead, *living):
            fairlead.store.attend(engine, 2)
        assert fairlead.queue.fairness().workers == 6, "a program that pulls is no worker"
        fairlead.services.engine(1).close()
        assert {report.engine for report in fairlead.store.engines()} == set(living)
        assert fairlead.queue.fairness().workers == 4
