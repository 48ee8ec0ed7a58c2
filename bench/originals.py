"""Measures what accepting documents costs: short ones in the store, or every one as a file.

python -m bench.originals [--folder DIR] [--size BYTES] [--short BYTES]
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import click

from fairlead import Fairlead
from fairlead.model.blobs import SHORT_BYTES

BATCH = 500
CLAIMS_A_ROUND = 50


@click.command()
@click.option("--folder", default=".", show_default=True, help="On the disk to measure.")
@click.option("--size", default=4000, show_default=True, help="Bytes of each document.")
@click.option("--short", default=SHORT_BYTES, show_default=True, help="0: all are files.")
@click.option("--seconds", default=5.0, show_default=True, help="Of each measurement.")
@click.option("--pending", default=0, help="Documents to be pending when claims are measured.")
def main(folder: str, size: int, short: int, seconds: float, pending: int) -> None:
    """Print documents a second, processor time for each, and how large the database is."""
    print(f"documents of {size:,} bytes; kept in the store up to {short:,}")
    with (
        patch("fairlead.blobs.local.SHORT_BYTES", short),
        patch("fairlead.intake.SHORT_BYTES", short),
        tempfile.TemporaryDirectory(dir=folder) as data,
        Fairlead(Path(data)) as fairlead,
    ):
        contents = [os.urandom(size) for _ in range(BATCH)]
        measure("one by one", lambda: submit(fairlead, contents[:1]), seconds)
        measure(f"{BATCH} together", lambda: submit(fairlead, contents), seconds)
        while pending > fairlead.queue.totals().waiting:
            submit(fairlead, contents)
        waiting = fairlead.queue.totals().waiting
        names = ["worker"] * CLAIMS_A_ROUND
        title = f"claims by {CLAIMS_A_ROUND} with {waiting:,} pending"
        measure(title, lambda: len(fairlead.store.claim_for(names)), seconds)
        print_size(fairlead, waiting)


def submit(fairlead: Fairlead, contents: list[bytes]) -> int:
    return len(fairlead.submit_many("bench", contents))


def measure(title: str, action: Callable[[], int], seconds: float) -> None:
    began, used, number = time.perf_counter(), cpu_seconds(), 0
    while time.perf_counter() < began + seconds and (done := action()):
        number += done
    took, cpu = time.perf_counter() - began, cpu_seconds() - used
    print(f"{title}: {number / took:,.0f} documents/s, {1e6 * cpu / number:,.0f} µs of CPU each")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def print_size(fairlead: Fairlead, number: int) -> None:
    """Print the size of the database with its WAL."""
    paths = (Path(f"{fairlead.folder.database}{end}") for end in ("", "-wal"))
    size = sum(path.stat().st_size for path in paths)
    print(f"database: {size / 1e6:,.0f} MB, {size / number:,.0f} bytes a document")


if __name__ == "__main__":
    main()
