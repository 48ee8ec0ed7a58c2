"""Finding 2: no error of a helper process, descriptor or fork ends the server or the worker."""

from __future__ import annotations

import errno
import os
import resource
import site
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apikit import served

import fairlead as package
from fairlead import Fairlead
from fairlead.model.states import State
from fairlead.service import raise_descriptor_limit
from fairlead.worker.sandbox import forkserver


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data") as installation:
        yield installation


def run_until_done(fairlead: Fairlead, id_: str) -> None:
    """Run an engine that would go on for ever, until the document has ended."""

    def tick() -> None:
        if not fairlead.document(id_).state.is_pending:
            engine.stop()

    engine = fairlead.services.engine(1, on_tick=tick)
    engine.run()


@pytest.mark.services
@pytest.mark.parametrize("failure", ["it exits", "no descriptor"])
def test_a_fork_server_that_cannot_start_is_waited_for(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    """Finding 2: fork server killed, and its successor while it starts: exit 1, 5 of 5."""
    document = fairlead.submit("acme", b"hello")
    failures, spawn = [1, 2, 3], forkserver.spawn

    def fail(command: list[str], **pipes: Any) -> Any:
        if not failures:
            return spawn(command, **pipes)
        failures.pop()
        if failure == "no descriptor":
            raise OSError(errno.EMFILE, "Too many open files")
        return spawn([sys.executable, "-c", "exit(3)"], **pipes)

    monkeypatch.setattr(forkserver, "spawn", fail)
    run_until_done(fairlead, document.id)
    assert not failures
    ended = fairlead.document(document.id)
    assert (ended.state, ended.attempts) == (State.DONE, 1)


@pytest.mark.services
def test_the_server_raises_its_limit_of_descriptors(tmp_path: Path) -> None:
    """Finding 2: the server kept the soft limit, so 1,200 connections ended it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with served(tmp_path / "data", "--workers", "1") as server:
        limit, _ = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    assert limit == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    """Finding 2: the soft limit of 1,024 was kept."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_children_find_the_packages_of_a_user_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 2: after `pip install --user`, children could not import."""
    folder = Path(package.__file__).parent.parent
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(folder))
    assert str(folder) in forkserver._environment()["PYTHONPATH"].split(os.pathsep)
