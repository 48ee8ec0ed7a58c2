"""Measures how soon an idle installation starts a document: `python -m bench.idle [--postgres]`.

Each sample submits one short document to an idle installation. Two intervals are measured, both
from the return of `submit`: to `started_at`, the time of the claim, and to the hand-over, when the
engine has sent the document to its worker process. An interval below zero means that the engine was
faster than the return of `submit`. Once the engine runs in the process that submits, and once it is
a `fairlead worker` of its own.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from fairlead import Fairlead
from fairlead.cli import main as command_line
from fairlead.model.documents import Document
from fairlead.service import running
from fairlead.simulation.summary import percentile
from fairlead.worker.engine_service import EngineService
from fairlead.worker.sandbox.process import ReadJob
from fairlead.worker.slot import WorkerSlot

WARM_UP = 10
"""Warm-up samples, which do not count."""


class Sample(NamedTuple):
    """Seconds from the return of `submit`."""

    to_start: float
    to_hand_over: float


@click.command()
@click.option("--postgres", is_flag=True, help="On a PostgreSQL server of its own.")
@click.option("--samples", default=100, show_default=True)
@click.option("--gap", default=0.06, show_default=True, help="Seconds of idling between samples.")
def main(postgres: bool, samples: int, gap: float) -> None:
    """Print p50 and p95 of the wait for an idle worker."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))
        urls: dict[str, str | None] = {"same": None, "across": None}
        if postgres:
            from bench.postgres import served  # noqa: PLC0415 (needs the server and its driver)

            server = stack.enter_context(served())
            urls = {name: server.url_of(name) for name in urls}
        for name, words in (("same", "in one process"), ("across", "across processes")):
            folder = root / name
            folder.mkdir()
            if url := urls[name]:
                (folder / "fairlead.toml").write_text(f'store = "{url}"\n')
            start_engine = engine_in_thread if name == "same" else worker_process
            with Fairlead(folder, settings={"workers": 1}) as fairlead:
                with start_engine(fairlead, folder):
                    documents = submit_all(fairlead, samples + WARM_UP, gap)[WARM_UP:]
                report(words, measured(fairlead, folder, documents))


@contextmanager
def engine_in_thread(fairlead: Fairlead, folder: Path) -> Iterator[None]:
    record_hand_overs(folder / "handed-over")
    with running(EngineService(fairlead.services.engine)):
        yield


@contextmanager
def worker_process(_fairlead: Fairlead, folder: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.idle", "--be-worker", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def be_worker(folder: Path) -> None:
    """Run `fairlead worker`, and record when it hands documents to its children."""
    record_hand_overs(folder / "handed-over")
    sys.argv = ["fairlead", "worker", "--workers=1", f"--data={folder}"]
    command_line()


def record_hand_overs(path: Path) -> None:
    send = WorkerSlot.send
    lines = path.open("a", buffering=1)

    def recording_send(slot: WorkerSlot, job: ReadJob) -> object:
        result = send(slot, job)
        lines.write(f"{job.sha256} {time.time()}\n")
        return result

    WorkerSlot.send = recording_send  # type: ignore[method-assign, assignment]


def submit_all(fairlead: Fairlead, number: int, gap: float) -> list[tuple[Document, float]]:
    """Submit so many different documents one by one; return them with the times of acceptance."""
    documents = []
    for index in range(number):
        document = fairlead.submit("acme", f"letter {index}".encode(), name=f"{index}.txt")
        documents.append((document, time.time()))
        fairlead.wait([document.id], timeout=60)
        time.sleep(gap * random.uniform(0.5, 1.5))  # not in step with any poll
    return documents


def measured(
    fairlead: Fairlead, folder: Path, documents: Sequence[tuple[Document, float]]
) -> list[Sample]:
    lines = (folder / "handed-over").read_text().splitlines()
    handed_over = {sha256: float(at) for sha256, at in (line.split() for line in lines)}
    samples = []
    for document, returned_at in documents:
        started_at = fairlead.document(document.id).started_at
        assert started_at is not None
        sent_at = handed_over[document.sha256]
        samples.append(Sample(started_at - returned_at, sent_at - returned_at))
    return samples


def report(words: str, samples: Sequence[Sample]) -> None:
    for event, values in zip(("claim", "hand-over"), zip(*samples, strict=True), strict=True):
        p50, p95 = (1000 * percentile(sorted(values), percent) for percent in (50, 95))
        print(f"{words}, submit to {event}: p50 {p50:.2f} ms, p95 {p95:.2f} ms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be-worker"]:
        be_worker(Path(sys.argv[2]))
    else:
        main()
