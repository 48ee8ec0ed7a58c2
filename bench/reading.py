"""How much of the bare libraries' speed is left when documents go through Fairlead end to end.

The same documents, read by the same function: once in two plain processes that keep nothing, once
accepted, queued, claimed, read by two locked workers and saved durably. Both in turns, in one run.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.pool import Pool
from pathlib import Path

import click

from fairlead import Fairlead
from fairlead.core.states import State
from fairlead.demo.samples import samples
from fairlead.work.extract import CannotRead, ReadLimits, extract, readers

CORPUS = Path(os.environ.get("FAIRLEAD_CORPUS", "../shared/corpus"))
BATCH = 500


@click.command()
@click.option("--documents", default=2_000, show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--made", is_flag=True, help="Made documents, also where there is a corpus.")
def main(documents: int, workers: int, rounds: int, made: bool) -> None:
    """Print documents per second of both, and the ratio."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        sources = (
            made_documents(Path(folder)) if made else born_digital() or made_documents(Path(folder))
        )
        paths = [sources[number % len(sources)] for number in range(documents)]
        print(f"{documents:,} documents out of {len(sources)}, {workers} workers")
        ratios = []
        with plain_processes(workers) as pool:
            for number in range(rounds):
                bare = read_bare(pool, paths)
                through = read_through_fairlead(Path(folder) / str(number), paths, workers)
                ratios.append(through / bare)
                print(f"bare {bare:,.0f}/s, Fairlead {through:,.0f}/s: {through / bare:.0%}")
        print(f"median: {statistics.median(ratios):.0%} of the bare libraries' speed")


def born_digital() -> list[Path]:
    """Those of the corpus that have text of their own and can be read here."""
    manifest = CORPUS / "manifest.csv"
    if not manifest.exists():
        return []
    with manifest.open(encoding="utf-8", newline="") as file:
        found = [
            CORPUS / row["file"] for row in csv.DictReader(file) if row["expected_outcome"] == "ok"
        ]
    return [path for path in found if read_one(path)]


def made_documents(folder: Path) -> list[Path]:
    paths = []
    for number, sample in enumerate(samples(40, seed=1)):
        paths.append(folder / f"{number}-{sample.name}")
        paths[-1].write_bytes(sample.content)
    return paths


def plain_processes(workers: int) -> Pool:
    """Warm ones, as Fairlead's are."""
    pool = multiprocessing.get_context("spawn").Pool(workers, initializer=readers)
    pool.map(time.sleep, [0.2] * workers, chunksize=1)
    return pool


def read_one(path: Path) -> int:
    """The length of the text; 0 where it cannot be read."""
    try:
        found = extract(path, limits=ReadLimits(), on_progress=lambda _done, _pages: None)
    except CannotRead:
        return 0
    return len(found.text)


def read_bare(pool: Pool, paths: Sequence[Path]) -> float:
    began = time.perf_counter()
    lengths = list(pool.imap_unordered(read_one, paths, chunksize=8))
    assert all(lengths)
    return len(paths) / (time.perf_counter() - began)


def read_through_fairlead(folder: Path, paths: Sequence[Path], workers: int) -> float:
    """Documents per second from the first start to the last end; all accepted before."""
    with Fairlead(folder) as fairlead:
        for first in range(0, len(paths), BATCH):
            fairlead.submit_many("acme", list(paths[first : first + BATCH]))
        fairlead.run_until_idle(workers=workers)
        found = fairlead.documents(limit=len(paths))
        assert {each.state for each in found} == {State.DONE}
        began = min(each.started_at or 0.0 for each in found)
        ended = max(each.finished_at or 0.0 for each in found)
        return len(found) / (ended - began)


if __name__ == "__main__":
    main()
