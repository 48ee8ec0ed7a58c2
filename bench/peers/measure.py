"""One measurement: fill a fresh queue, let worker processes drain it, and read their CPU time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count as numbers
from pathlib import Path
from typing import NamedTuple

import redis

from bench.peers import cpu, environment
from bench.peers.contestants import Contestant
from bench.peers.counting import Counts
from bench.peers.servers import DISK, Servers, create_database, drop_database, tidy

SLOWEST_START = 60.0
"""Seconds until all worker processes have their first document."""

POLL = 0.005
_names = (f"bench_{number}" for number in numbers())


class BenchFailed(Exception):
    """A worker process ended or did not start; the message has its output."""


class Figures(NamedTuple):
    """What one measurement gave."""

    per_s: float
    cpu_us: float


@dataclass(frozen=True)
class Effort:
    """How long to measure: up to so many seconds, a share of the usual number of documents.

    A queue that is slow to fill gets fewer documents: as many as the time allows.
    """

    processes: int
    seconds: float
    fill_seconds: float = 60.0
    share: float = 1.0
    documents: int | None = None

    def documents_of(self, contestant: Contestant) -> int:
        """A multiple of what all processes take in one batch, at least two of them."""
        number = self.documents or int(contestant.documents * self.share)
        at_once = self.processes * (contestant.batch or 1)
        return max(2, number // at_once) * at_once


class Place(NamedTuple):
    """Where a fresh queue is, and the first processes of the server that keeps it."""

    url: str
    roots: Sequence[int]


class Sample(NamedTuple):
    """What the processes had done and used at one time."""

    time: float
    documents: int
    cpu: float


def measure(servers: Servers, contestant: Contestant, effort: Effort) -> Figures:
    """Documents per second and CPU time of a document, while the queue is drained."""
    with ExitStack() as stack:
        place = stack.enter_context(fresh_place(servers, contestant))
        counts = Counts(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        program = Program(contestant, effort, place, counts)
        documents = effort.documents_of(contestant)
        if not contestant.is_submission:
            documents = int(program.run("fill") or documents)
        elif contestant.is_peer:
            program.run("install")
        else:
            program.run("fill", documents=0)  # makes the tables
        if contestant.server == "postgres":
            tidy(servers.postgres, place.url)
        processes = stack.enter_context(program.workers())
        return observe(processes, place, counts, effort, documents)


@contextmanager
def fresh_place(servers: Servers, contestant: Contestant) -> Iterator[Place]:
    if contestant.server == "postgres":
        name, server = next(_names), servers.postgres
        try:
            yield Place(create_database(server, name), [server.pid])
        finally:
            drop_database(server, name)
    elif contestant.server == "redis":
        with redis.Redis.from_url(servers.redis.url) as client:
            client.flushall()
        yield Place(servers.redis.url, [servers.redis.pid])
    elif contestant.server == "rabbitmq":
        yield Place(servers.rabbitmq.url, [servers.rabbitmq.pid])
    else:
        folder = tempfile.mkdtemp(prefix="fairlead-peers-", dir=DISK)
        try:
            yield Place(str(Path(folder) / "store.db"), [])
        finally:
            shutil.rmtree(folder)


class Program:
    """The program in `workers` that fills and drains one queue."""

    def __init__(
        self, contestant: Contestant, effort: Effort, place: Place, counts: Counts
    ) -> None:
        self._contestant = contestant
        self._processes = effort.processes
        python = environment.python() if contestant.is_peer else Path(sys.executable)
        self._command = [str(python), "-m", f"bench.peers.workers.{contestant.program}"]
        self._environment = {
            **os.environ,
            **counts.environment,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PEERS_URL": place.url,
            "PEERS_PROCESSES": str(effort.processes),
            "PEERS_BATCH": str(contestant.batch or 1),
            "PEERS_DOCUMENTS": str(effort.documents_of(contestant)),
            "PEERS_SECONDS": str(effort.fill_seconds),
            "PEERS_POLICY": contestant.policy,
            "PEERS_CUSTOMERS": str(contestant.customers),
        }
        if contestant.is_peer:  # it must not find the packages of Fairlead's environment
            self._environment["PYTHONPATH"] = str(environment.ROOT)

    def run(self, command: str, documents: int | None = None) -> str:
        """Run to its end, and return its output."""
        changed = {} if documents is None else {"PEERS_DOCUMENTS": str(documents)}
        result = subprocess.run(
            [*self._command, command],
            env={**self._environment, **changed},
            cwd=environment.ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if result.returncode:
            raise BenchFailed(f"{self._contestant.name}: {command} failed:\n{result.stderr}")
        return result.stdout

    @contextmanager
    def workers(self, command: str = "") -> Iterator[list[subprocess.Popen[bytes]]]:
        """The worker processes, which are ended afterwards with their descendants."""
        command = command or ("submit" if self._contestant.is_submission else "work")
        with tempfile.TemporaryFile() as log:
            processes = [
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *self._command, command],
                    env=self._environment,
                    cwd=environment.ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                for _ in range(1 if self._contestant.single else self._processes)
            ]
            try:
                yield processes
            except BenchFailed as error:
                log.seek(0)
                output = log.read().decode("utf-8", "replace")[-4_000:]
                raise BenchFailed(f"{self._contestant.name}: {error}:\n{output}") from None
            finally:
                for process in processes:
                    with suppress(ProcessLookupError):  # what is left of its queue is dropped
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def observe(
    processes: Sequence[subprocess.Popen[bytes]],
    place: Place,
    counts: Counts,
    effort: Effort,
    documents: int,
) -> Figures:
    """Read rate and CPU time between two samples, in the midst of the work.

    The first tenth, or half of the time, warms up. The last tenth is left out, as a worker may be
    idle in it.
    """
    wait_for_start(processes, counts, effort.processes)
    roots = [*place.roots, *(process.pid for process in processes)]
    first = wait_for_documents(processes, counts, roots, documents // 10, effort.seconds / 2)
    last = wait_for_documents(processes, counts, roots, documents * 9 // 10, effort.seconds)
    number = last.documents - first.documents
    if number <= 0:
        raise BenchFailed("nothing was done")
    return Figures(number / (last.time - first.time), (last.cpu - first.cpu) * 1e6 / number)


def wait_for_start(
    processes: Sequence[subprocess.Popen[bytes]], counts: Counts, expected: int
) -> None:
    deadline = time.monotonic() + SLOWEST_START
    while counts.processes() < expected:
        if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
            raise BenchFailed(f"{counts.processes()} of {expected} worker processes began")
        time.sleep(POLL)
    counts.start()


def wait_for_documents(
    processes: Sequence[subprocess.Popen[bytes]],
    counts: Counts,
    roots: Sequence[int],
    documents: int,
    seconds: float,
) -> Sample:
    """A sample once so many documents are done, or the time is over and a batch was begun.

    A sample in the midst of a batch would have its time and not its documents.
    """
    deadline = time.monotonic() + seconds
    before = counts.total()
    while True:
        done, now = counts.total(), time.monotonic()
        is_over = now > deadline and (done != before or now > deadline + seconds)
        if done >= documents or is_over:
            return Sample(time.monotonic(), done, cpu.seconds(roots))
        before = done
        if all(map(has_ended, processes)):
            raise BenchFailed(f"all worker processes ended after {done} documents")
        time.sleep(POLL)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended. It is not reaped: its CPU time can still be read."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, options) is not None
