"""CPU time of processes and their descendants, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")


def tree(process: int) -> Iterator[int]:
    """A process and its descendants."""
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text("ascii").split():
                yield from tree(int(child))


def seconds(roots: Iterable[int]) -> float:
    """User and system time of process trees, with that of children which have ended.

    PostgreSQL ends a backend with its connection: from then on its time is the server's.
    """
    return TICK * sum(_ticks(process) for root in roots for process in tree(root))


def _ticks(process: int) -> int:
    try:
        line = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    fields = line.rpartition(") ")[2].split()  # the name before may have spaces
    return sum(int(field) for field in fields[11:15])  # utime, stime, cutime, cstime


def running_seconds(roots: Iterable[int]) -> float:
    """The time of processes that live throughout, to the nanosecond rather than to the tick."""
    nanoseconds = 0
    for root in roots:
        for process in tree(root):
            for path in Path(f"/proc/{process}/task").glob("*/schedstat"):
                with suppress(OSError):
                    nanoseconds += int(path.read_text("ascii").split()[0])
    return nanoseconds / 1e9
