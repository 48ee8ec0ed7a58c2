"""Runs jobs in step pools: a module of steps in a folder, and jobs with their folders."""

from __future__ import annotations

import os
import selectors
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from fairlead.steps.outcomes import Outcome, StepEnd, StepJob
from fairlead.steps.pool import StepPool
from fairlead.steps.process_slots import ProcessSlots

LONGEST_WAIT = 60.0


def write_module(folder: Path, source: str, name: str = "mysteps") -> None:
    (folder / f"{name}.py").write_text(textwrap.dedent(source))


def make_job(
    folder: Path,
    id_: str = "d1",
    content: bytes = b"original",
    *,
    earlier: Mapping[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> StepJob:
    place = folder / f"job-{id_}"
    place.mkdir()
    (place / "original").write_bytes(content)
    for name, text in (earlier or {}).items():
        (place / name).write_text(text)
    return StepJob(id_, "acme", "invoice.pdf", "pdf", metadata or {}, 1, place)


class RunningPool(AbstractContextManager["RunningPool"]):
    """A pool of which a test waits for ends, as the engine does: woken, or at its deadline."""

    def __init__(self, folder: Path, reference: str, *, workers: int = 1, **options: Any) -> None:
        self.folder = folder
        self._selector = selectors.DefaultSelector()
        self._slots = tempfile.TemporaryDirectory()
        self._reference = reference
        options = {"environment": dict(os.environ), "slots": self.slots(), **options}
        self.pool = StepPool(
            reference,
            search_path=[str(folder), *sys.path],
            selector=self._selector,
            workers=lambda: workers,
            **options,
        )
        self.ends: dict[str, StepEnd] = {}

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.pool.close()
        self._selector.close()
        self._slots.cleanup()

    def slots(self) -> ProcessSlots:
        """The bound of processes in the folder of this pool, for another engine."""
        return ProcessSlots(Path(self._slots.name), self._reference)

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Poll until the condition holds."""
        give_up = time.monotonic() + LONGEST_WAIT
        while True:
            for end in self.pool.poll():
                assert end.job.id not in self.ends, "a job ended twice"
                self.ends[end.job.id] = end
            for job in self.pool.take_returned():
                self.pool.start(job)
            self.pool.flush()
            if condition():
                return
            assert time.monotonic() < give_up, "the step process says nothing"
            self.select()

    def select(self, longest: float = LONGEST_WAIT) -> None:
        """Wait as the engine does."""
        self._selector.select(min(longest, max(0.0, self.pool.deadline() - time.monotonic())))

    def readable(self) -> list[object]:
        """What `poll` has left unread."""
        return [key.fileobj for key, _ in self._selector.select(0)]

    def registered(self) -> int:
        """How many descriptors the pool waits for."""
        return len(self._selector.get_map())

    def ready(self) -> RunningPool:
        self.wait_until(lambda: self.pool.free() or self.pool.problem)
        return self

    def start(self, *jobs: StepJob) -> None:
        self.ready()
        for job in jobs:
            self.pool.start(job)
        self.pool.flush()

    def run(self, *jobs: StepJob) -> list[Outcome]:
        """Start jobs at once, wait for all ends, and return their outcomes."""
        self.start(*jobs)
        return self.outcomes(*jobs)

    def outcomes(self, *jobs: StepJob) -> list[Outcome]:
        self.wait_until(lambda: all(job.id in self.ends for job in jobs))
        return [self.ends[job.id].outcome for job in jobs]
