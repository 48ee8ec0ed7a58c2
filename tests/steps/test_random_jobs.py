"""Random jobs, cancellations and kills: each job ends once, as its own behaviour explains."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from stepkit import LONGEST_WAIT, RunningPool, make_job, write_module

from fairlead.backoff import Backoff
from fairlead.steps.outcomes import Died, Outcome, Raised, Returned, StepEnd, StepRefused, TimedOut

pytestmark = pytest.mark.services

WORKERS = 3
TIMEOUT = 1.0
ROUND_SECONDS = 0.003
LONGEST = 120.0
KINDS = ["quick"] * 8 + ["prints", "refuses", "waits", "waits", "dies", "hangs", "cancelled"]
CAPACITY = {"single": 3, "threads": 6, "one": 2, "tasks": 6}

STEPS = f"""
    import asyncio, fcntl, os, threading
    from contextlib import contextmanager
    from pathlib import Path
    from fairlead import Refuse, step

    @contextmanager
    def place(job):
        '''Locks one of as many files as jobs may run at once; the end of a process unlocks it.'''
        here = Path(job.metadata["folder"])
        for number in range(job.metadata["capacity"]):
            descriptor = os.open(here / f"place-{{number}}", os.O_CREAT | os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            try:
                yield
            finally:
                os.close(descriptor)
            return
        (here / "exceeded").touch()
        yield

    def waits(job):
        kind, here = job.metadata["kind"], Path(job.metadata["folder"])
        return (
            kind == "hangs"
            or kind == "waits" and not (here / f"release-{{job.id}}").exists()
            or kind == "cancelled" and not job.cancelled
        )

    def end(job):
        if job.metadata["kind"] == "dies":
            os._exit(7)
        if job.metadata["kind"] == "refuses":
            raise Refuse("refused", "The customer reads this.")
        if job.metadata["kind"] == "prints":
            print("a line of", job.id)
            os.write(1, b"from below")
        return job.id

    def behave(job):
        with place(job):
            while waits(job):
                threading.Event().wait(0.005)
            return end(job)

    @step(timeout={TIMEOUT})
    def single(job): return behave(job)

    @step(timeout={TIMEOUT}, concurrency=2)
    def threads(job): return behave(job)

    @step(timeout={TIMEOUT}, concurrency=2, processes=1)
    def one(job): return behave(job)

    @step(timeout={TIMEOUT}, concurrency=2)
    async def tasks(job):
        with place(job):
            while waits(job):
                await asyncio.sleep(0.005)
            return end(job)
"""


class Script(NamedTuple):
    jobs: int
    kills: int
    template_kills: int


SHORT = Script(45, 5, 1)
LONG = Script(600, 60, 8)


class RandomRun:
    """Jobs in a pool, as an engine starts them, and what happens to them."""

    def __init__(self, running: RunningPool, step: str, script: Script, seed: int) -> None:
        self.running = running
        self.pool = running.pool
        self.pool._backoff = Backoff(0.02, 0.1)
        self.folder = running.folder / "shared"
        self.folder.mkdir()
        self.dice = random.Random(seed)
        self.kinds = {f"d{number}": self.dice.choice(KINDS) for number in range(script.jobs)}
        metadata = {"folder": str(self.folder), "capacity": CAPACITY[step]}
        self.waiting = deque(
            make_job(running.folder, id_, metadata={**metadata, "kind": kind})
            for id_, kind in self.kinds.items()
        )
        self.started: set[str] = set()
        self.cancelled: set[str] = set()
        self.ends: dict[str, StepEnd] = {}
        self.processes: dict[str, set[int]] = {id_: set() for id_ in self.kinds}
        self.killed: set[int] = set()
        self.pids: set[int] = set()
        self.faults: list[Callable[[], None]] = [self.kill_process] * script.kills
        self.faults += [self.kill_template] * script.template_kills
        self.dice.shuffle(self.faults)

    def run(self) -> None:
        give_up = time.monotonic() + LONGEST
        while len(self.ends) < len(self.kinds):
            assert time.monotonic() < give_up, self.kinds.keys() - self.ends.keys()
            self.start_some()
            self.note_processes()
            self.dice.choice([self.cancel, self.release, self.fail])()
            self.running.select(ROUND_SECONDS)
            self.poll()

    def poll(self) -> None:
        for end in self.pool.poll():
            assert end.job.id not in self.ends, "a job ended twice"
            self.ends[end.job.id] = end
        self.waiting.extendleft(reversed(self.pool.take_returned()))
        self.note_processes()

    def start_some(self) -> None:
        for _ in range(self.dice.randrange(8)):
            if self.pool.mean is not None:
                self.pool.mean = 0.001  # so that some lie behind others
            if self.waiting and (self.pool.free() or self.pool.has_room_behind()):
                job = self.waiting.popleft()
                self.started.add(job.id)
                self.pool.start(job)
        self.pool.flush()

    def note_processes(self) -> None:
        """Which processes each job has been in."""
        for process in self.pool._processes.values():
            for run in process.jobs:
                self.processes[run.job.id].add(process.number)
            if process.pid is not None:
                self.pids.add(process.pid)

    def under_way(self) -> list[str]:
        waiting = {job.id for job in self.waiting}
        return sorted(self.started - self.ends.keys() - waiting)

    def cancel(self) -> None:
        if self.dice.random() < 0.3 and (ids := self.under_way()):
            id_ = self.dice.choice(ids)
            self.cancelled.add(id_)
            self.pool.cancel_job(id_)

    def release(self) -> None:
        if ids := [id_ for id_ in self.under_way() if self.kinds[id_] == "waits"]:
            (self.folder / f"release-{self.dice.choice(ids)}").touch()

    def fail(self) -> None:
        if self.faults and self.dice.random() < 0.5:
            self.faults.pop()()

    def kill_process(self) -> None:
        """Kill one that has jobs, or one that has none."""
        processes = [own for own in self.pool._processes.values() if own.pid is not None]
        if processes:
            process = self.dice.choice(processes)
            assert process.pid is not None
            self.killed.add(process.number)
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def kill_template(self) -> None:
        if self.pool._template is not None:
            self.killed |= self.pool._processes.keys()
            os.kill(self.pool._template.pid, signal.SIGKILL)

    # --- what must hold ---

    def check_ends(self) -> None:
        wrong = {
            id_: (self.kinds[id_], end) for id_, end in self.ends.items() if not self.explains(end)
        }
        assert not wrong
        assert not (self.folder / "exceeded").exists(), "more jobs at once than the capacity"

    def explains(self, end: StepEnd) -> bool:
        """Whether the behaviour of the job, or what the test did to it, explains its outcome."""
        id_, outcome = end.job.id, end.outcome
        if outcome == Died("SIGKILL"):
            return bool(self.processes[id_] & self.killed)
        if isinstance(outcome, TimedOut):
            return end.seconds >= TIMEOUT
        if isinstance(outcome, Raised):
            return id_ in self.cancelled
        return self.is_natural(self.kinds[id_], id_, outcome)

    def is_natural(self, kind: str, id_: str, outcome: Outcome) -> bool:
        if kind == "dies":
            return outcome == Died("exit code 7")
        if kind == "refuses":
            return isinstance(outcome, StepRefused)
        is_possible = kind != "hangs" and (kind != "cancelled" or id_ in self.cancelled)
        return is_possible and text_of(outcome) == id_


def text_of(outcome: Outcome) -> str | None:
    text = outcome.text if isinstance(outcome, Returned) else None
    return None if text is None else text.read().decode()


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def has_ended(pid: int) -> bool:
    """Whether it ends, or has; those of a killed template are killed by the system."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    readable, _, _ = select.select([end], [], [], LONGEST_WAIT)
    os.close(end)
    return bool(readable)


def check_random_jobs(folder: Path, step: str, script: Script, seed: int) -> None:
    write_module(folder, STEPS)
    before = descriptors()
    options: dict[str, Any] = {"workers": WORKERS}
    with RunningPool(folder, f"mysteps:{step}", **options) as running:
        run = RandomRun(running.ready(), step, script, seed)
        run.run()
        running.pool.close()
        assert not running.readable()
        assert not running.registered()
    run.check_ends()
    assert descriptors() == before
    assert not [pid for pid in run.pids if not has_ended(pid)]
    assert len({process for own in run.processes.values() for process in own}) > 5


@pytest.mark.parametrize("step", CAPACITY)
def test_random_jobs_end_once_and_as_they_behave(tmp_path: Path, step: str) -> None:
    check_random_jobs(tmp_path, step, SHORT, 1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("step", CAPACITY)
def test_many_random_jobs_end_once_and_as_they_behave(tmp_path: Path, step: str, seed: int) -> None:
    check_random_jobs(tmp_path, step, LONG, seed)
