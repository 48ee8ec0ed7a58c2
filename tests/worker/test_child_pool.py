"""The pool of children: one customer each, few at a time, and none that runs without work."""

from __future__ import annotations

import select
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from fairlead.errors import DiskFull
from fairlead.worker.sandbox import child_pool
from fairlead.worker.sandbox.child_pool import ChildPool
from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.job_dir import JobDir
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import JobAnswer, ReadJob, Sandbox

pytestmark = pytest.mark.services

LIMITS = SandboxLimits()


@pytest.fixture(scope="module")
def forkserver() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture
def pool(forkserver: ForkServer, tmp_path: Path) -> Iterator[ChildPool]:
    children = ChildPool(tmp_path, forkserver)
    yield children
    children.close()
    assert list(tmp_path.iterdir()) == []


def ready(sandbox: Sandbox) -> Sandbox:
    while not sandbox.ready:
        select.select([sandbox], [], [])
        sandbox.receive()
    return sandbox


def read(sandbox: Sandbox, content: bytes) -> list[JobAnswer]:
    sandbox.send(ReadJob(content, sha256(content).hexdigest()))
    while not (answers := sandbox.receive()):
        select.select([sandbox], [], [])
    return answers


def add_idle(pool: ChildPool, customer: str) -> Sandbox:
    """A child that has read a document of this customer, without work."""
    sandbox = ready(pool.take(LIMITS, customer))
    read(sandbox, b"letter")
    pool.keep(sandbox, customer)
    return sandbox


def state(sandbox: Sandbox) -> str:
    """The kernel's letter for what the process does: T is stopped."""
    stat = Path(f"/proc/{sandbox.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0]


def is_gone(sandbox: Sandbox) -> bool:
    return not Path(f"/proc/{sandbox.pid}").exists()


def test_a_customer_gets_its_own_child_again(pool: ChildPool) -> None:
    """Safety finding 4."""
    acme, globex = add_idle(pool, "acme"), add_idle(pool, "globex")
    assert acme is not globex
    again = pool.take(LIMITS, "acme")
    assert again is acme
    assert read(again, b"another letter")
    pool.end(again)


@pytest.mark.parametrize("customer", ["globex", None])
def test_others_and_suspects_get_a_new_child(pool: ChildPool, customer: str | None) -> None:
    """Safety finding 4."""
    acme = add_idle(pool, "acme")
    other = pool.take(LIMITS, customer)
    assert other is not acme
    assert other.jobs_sent == 0
    pool.end(other)


def test_a_child_without_work_is_stopped(pool: ChildPool) -> None:
    """Safety finding 4: one that was taken over cannot go on computing."""
    sandbox = add_idle(pool, "acme")
    while state(sandbox) != "T":  # the signal is on its way
        pass
    pool.end(pool.take(LIMITS, "acme"))


def test_the_child_that_waited_longest_makes_room(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_pool, "MOST_IDLE", 2)
    acme, globex = add_idle(pool, "acme"), add_idle(pool, "globex")
    pool.keep(pool.take(LIMITS, "acme"), "acme")
    initech = add_idle(pool, "initech")
    assert [is_gone(child) for child in (acme, globex, initech)] == [False, True, False]


def test_a_child_that_holds_much_memory_is_not_kept(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_pool, "MOST_IDLE_BYTES", 1_000_000)
    assert is_gone(add_idle(pool, "acme"))


def test_new_limits_need_new_children(pool: ChildPool) -> None:
    acme = add_idle(pool, "acme")
    new = pool.take(SandboxLimits(seconds=7.0), "acme")
    assert is_gone(acme)
    assert new.limits.seconds == 7.0
    pool.end(new)


def test_children_without_work_make_room_on_a_full_disk(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of theirs is there already; a new one would need room."""
    acme = add_idle(pool, "acme")
    make = JobDir.__init__

    def fail_where_new(job_dir: JobDir, folder: Path) -> None:
        if not folder.exists():
            raise DiskFull("no room")
        make(job_dir, folder)

    monkeypatch.setattr(JobDir, "__init__", fail_where_new)
    globex = pool.take(LIMITS, "globex")
    assert is_gone(acme)
    assert globex.job_dir.folder == acme.job_dir.folder
    pool.end(globex)


def test_a_child_that_is_ended_twice_leaves_one_folder(pool: ChildPool) -> None:
    """Two children in one folder would read each other's documents."""
    ended = ready(pool.take(LIMITS, "acme"))
    pool.end(ended)
    first = pool.take(LIMITS, "globex")
    pool.end(ended)
    second = pool.take(LIMITS, "acme")
    assert first.job_dir.folder != second.job_dir.folder
    pool.end(first)
    pool.end(second)
