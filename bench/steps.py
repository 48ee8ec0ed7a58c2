"""Own steps on all cores: waiting and computing steps by workers, and what a process costs.

`python -m bench.steps` prints three tables: 24 documents of half a second by number of workers, 12
computing documents beside `multiprocessing.Pool(2)`, and the start and memory of a step's process
that is forked from its template, beside one that imports the step itself.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead import Fairlead, Job, step
from fairlead.steps.outcomes import StepJob
from fairlead.steps.pool import StepPool
from fairlead.steps.process_slots import ProcessSlots

WAITING, COMPUTING = 24, 12
WAIT_SECONDS, CPU_SECONDS = 0.5, 0.4
CORES = 2
PROCESSES = 8
IMPORTS = (
    "import asyncio, decimal, email.message, http.client, sqlite3, ssl, xml.dom.minidom, httpx"
)


def waits(job: Job) -> None:
    """A step that waits for something, without saying so by `concurrency`."""
    del job
    time.sleep(WAIT_SECONDS)


def computes(job: Job | int) -> None:
    del job
    end = time.process_time() + CPU_SECONDS
    while time.process_time() < end:
        pass


@step(concurrency=4)
def computes_in_threads(job: Job) -> None:
    del job
    end = time.thread_time() + CPU_SECONDS
    while time.thread_time() < end:
        pass


def seconds(function: Callable[[Job], None], documents: int, workers: int) -> float:
    """From the start of the engine to the end of the last document."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Fairlead(folder, steps=[f"bench.steps:{function.__name__}"]) as fairlead,
    ):
        for number in range(documents):
            fairlead.submit(f"customer {number % 5}", b"x", name=f"{number}.txt")
        began = time.perf_counter()
        fairlead.run_until_idle(workers=workers)
        return time.perf_counter() - began


def pool_seconds() -> float:
    with multiprocessing.Pool(CORES) as pool:
        pool.map(abs, range(CORES))
        began = time.perf_counter()
        pool.map(computes, range(COMPUTING), chunksize=1)
        return time.perf_counter() - began


@contextmanager
def step_pool(folder: Path, source: str) -> Iterator[tuple[StepPool, selectors.BaseSelector]]:
    (folder / "measured.py").write_text(source)
    selector = selectors.DefaultSelector()
    pool = StepPool(
        "measured:waits",
        search_path=[str(folder), *sys.path],
        environment=dict(os.environ),
        selector=selector,
        workers=lambda: PROCESSES,
        slots=ProcessSlots(folder / "slots", "measured:waits"),
    )
    try:
        yield pool, selector
    finally:
        pool.close()
        selector.close()


def start_and_memory(first_line: str) -> tuple[float, float]:
    """Milliseconds until a process runs a job, and its own megabytes, as the mean of some."""
    source = f"{IMPORTS}\n{first_line}\nfrom threading import Event\ndef waits(job): Event().wait()"
    with (
        tempfile.TemporaryDirectory() as folder,
        step_pool(Path(folder), source) as (pool, selector),
    ):
        wait_until(pool, selector, lambda: pool.is_loaded)
        began = time.perf_counter()
        for number in range(PROCESSES):
            job = StepJob(str(number), "acme", "", None, {}, 1, Path(folder))
            pool.start(job)
        wait_until(pool, selector, lambda: len(pool.running_since()) == PROCESSES)
        milliseconds = 1000 * (time.perf_counter() - began) / PROCESSES
        return milliseconds, sum(map(own_megabytes, pool.pids())) / PROCESSES


def wait_until(
    pool: StepPool, selector: selectors.BaseSelector, condition: Callable[[], bool]
) -> None:
    while not condition():
        selector.select(1.0)
        pool.poll()


def own_megabytes(pid: int) -> float:
    """The memory that a process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = [line.split()[1] for line in lines if line.startswith("Private")]
    return sum(map(int, private)) / 1024


def main() -> None:
    print(
        f"{WAITING} documents of {WAIT_SECONDS} s\n\n| workers | seconds | ideal |\n|---|---|---|"
    )
    for workers in (1, 2, 4):
        ideal = WAITING * WAIT_SECONDS / workers
        print(f"| {workers} | {seconds(waits, WAITING, workers):.1f} | {ideal:.1f} |")
    alone, pool = seconds(computes, COMPUTING, CORES), pool_seconds()
    threads = seconds(computes_in_threads, COMPUTING, CORES)
    print(f"\n{COMPUTING} documents of {CPU_SECONDS} s of processor time, {CORES} workers\n")
    print("| | seconds | ratio |\n|---|---|---|")
    for name, took in (
        (f"multiprocessing.Pool({CORES})", pool),
        ("concurrency 1", alone),
        ("concurrency 4", threads),
    ):
        print(f"| {name} | {took:.1f} | {took / pool:.2f} |")
    print("\nA process of a step\n\n| | start, ms | memory of its own, MB |\n|---|---|---|")
    for name, first_line in (
        ("forked from its template", ""),
        ("imports the step itself", "import socket; connection = socket.socket()"),
    ):
        milliseconds, megabytes = start_and_memory(first_line)
        print(f"| {name} | {milliseconds:.1f} | {megabytes:.1f} |")


if __name__ == "__main__":
    main()
