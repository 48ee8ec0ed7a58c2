"""How worker processes report progress: one small mapped file per process.

The no-op work of every queue is `count`. It costs less than a microsecond, so that it measures
all queues alike. This module imports only the standard library: the peers run it too.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from itertools import count as numbers
from pathlib import Path

FOLDER = "PEERS_COUNTS"
"""The environment variable that names the folder of the files."""

_GO = "go"
_SIZE = 8


class Counter:
    """The number of documents that this process has worked on.

    The first use waits until the benchmark lets all processes begin. So nobody's start-up is in
    the measurement, and no process drains the queue before the others are ready.
    """

    def __init__(self) -> None:
        self._joining = threading.Lock()
        self._file: mmap.mmap | None = None
        self._next = numbers(1)

    def ready(self) -> None:
        """Report this process, and wait for the start."""
        with self._joining:  # of the threads of one process
            if self._file is None:
                folder = Path(os.environ[FOLDER])
                self._file = _mapped(folder / str(os.getpid()))
                while not (folder / _GO).exists():
                    time.sleep(0.001)

    def add(self, number: int = 1) -> None:
        """Count documents."""
        if self._file is None:
            self.ready()
        for _ in range(number - 1):
            next(self._next)
        # The iterator is atomic, where threads that add to a number would lose some.
        self._file[:_SIZE] = next(self._next).to_bytes(_SIZE, "little")  # type: ignore[index]


def _mapped(path: Path) -> mmap.mmap:
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(bytes(_SIZE))
    hidden.rename(path)
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), _SIZE)


_counter = Counter()


def ready() -> None:
    """Report this process as ready, and wait for the start."""
    _counter.ready()


def count(number: int = 1) -> None:
    """Count documents of this process: the no-op work."""
    _counter.add(number)


class Counts:
    """The counters of all processes, for the benchmark that reads them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def environment(self) -> dict[str, str]:
        return {FOLDER: str(self._folder)}

    def processes(self) -> int:
        """How many processes are ready."""
        return len(self._files())

    def start(self) -> None:
        """Let all processes begin."""
        (self._folder / _GO).touch()

    def total(self) -> int:
        return sum(int.from_bytes(path.read_bytes(), "little") for path in self._files())

    def _files(self) -> list[Path]:
        return [path for path in self._folder.iterdir() if path.name.isdigit()]
