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
from typing import NamedTuple

import click

from fairlead import Fairlead
from fairlead.demo.samples import samples
from fairlead.model.states import State
from fairlead.read import CannotRead, ReadLimits, extract, readers

CORPUS = Path("../shared/corpus")
BATCH = 500


class Speed(NamedTuple):
    """Documents per second, and processor time for each, which others' work disturbs less.

    The rate decides: of Fairlead's processor time, the last children's is missing, because they
    end with the process that forked them.
    """

    rate: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f}/s ({self.cpu * 1000:.1f} ms CPU each)"


@click.command()
@click.option("--documents", default=2_000, show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--made", is_flag=True, help="Made documents, also where there is a corpus.")
@click.option("--letters", is_flag=True, help="Letters of one line, which show what else costs.")
@click.option("--customers", default=1, show_default=True, help="Who submit them in turns.")
@click.option("--folder", default=".", show_default=True, help="Where to work; on a real disk.")
@click.option("--corpus", type=click.Path(path_type=Path), default=CORPUS, show_default=True)
def main(
    documents: int,
    workers: int,
    rounds: int,
    made: bool,
    letters: bool,
    customers: int,
    folder: str,
    corpus: Path,
) -> None:
    """Print documents per second of both, and the ratio."""
    with tempfile.TemporaryDirectory(dir=folder) as made_here:
        place = Path(made_here)
        corpus_paths = [] if made or letters else born_digital(corpus)
        sources = corpus_paths or (short_letters(place) if letters else made_documents(place))
        paths = [sources[number % len(sources)] for number in range(documents)]
        print(f"{documents:,} documents out of {len(sources)} of {customers} customers")
        ratios = []
        with plain_processes(workers) as pool:
            for number in range(rounds):
                bare = read_bare(pool, paths)
                through = read_through_fairlead(place / str(number), paths, workers, customers)
                ratios.append(through.rate / bare.rate)
                print(f"bare {bare}, Fairlead {through}: {ratios[-1]:.0%}")
        print(f"median: {statistics.median(ratios):.0%} of the bare libraries' speed")


def born_digital(corpus: Path) -> list[Path]:
    """The documents of the corpus with a text layer that can be read here."""
    manifest = corpus / "manifest.csv"
    if not manifest.exists():
        return []
    with manifest.open(encoding="utf-8", newline="") as file:
        paths = [
            corpus / row["file"] for row in csv.DictReader(file) if row["expected_outcome"] == "ok"
        ]
    return [path for path in paths if read_one(path)]


def made_documents(folder: Path) -> list[Path]:
    paths = []
    for number, sample in enumerate(samples(40, seed=1)):
        paths.append(folder / f"{number}-{sample.name}")
        paths[-1].write_bytes(sample.content)
    return paths


def short_letters(folder: Path) -> list[Path]:
    paths = [folder / f"{number}.txt" for number in range(40)]
    for path in paths:
        path.write_text(f"Dear Sir, this is letter {path.stem}.")
    return paths


def plain_processes(workers: int) -> Pool:
    """Warm processes, as Fairlead has them."""
    pool = multiprocessing.get_context("spawn").Pool(workers, initializer=readers)
    pool.map(time.sleep, [0.2] * workers, chunksize=1)
    return pool


def read_one(path: Path) -> int:
    """The length of the text; 0 where it cannot be read."""
    return len(read_text(path))


def read_text(path: Path) -> str:
    try:
        result = extract(path, limits=ReadLimits(), on_progress=lambda _done, _pages: None)
    except CannotRead:
        return ""
    return result.text


def read_timed(path: Path) -> tuple[int, float]:
    began = time.process_time()
    return read_one(path), time.process_time() - began


def read_bare(pool: Pool, paths: Sequence[Path]) -> Speed:
    began = time.perf_counter()
    timed = list(pool.imap_unordered(read_timed, paths, chunksize=8))
    took = time.perf_counter() - began
    assert all(length for length, _ in timed)
    return Speed(len(paths) / took, sum(cpu for _, cpu in timed) / len(paths))


def read_through_fairlead(
    folder: Path, paths: Sequence[Path], workers: int, customers: int
) -> Speed:
    """Speed from the first start to the last end; all are accepted before."""
    with Fairlead(folder) as fairlead:
        for first in range(0, len(paths), BATCH):
            batch = paths[first : first + BATCH]
            for number in range(customers):
                fairlead.submit_many(f"customer-{number}", list(batch[number::customers]))
        before = cpu_of_all()
        fairlead.run_until_idle(workers=workers)
        cpu = cpu_of_all() - before
        documents = fairlead.documents(limit=len(paths)).items
        assert {document.state for document in documents} == {State.DONE}
        began = min(document.started_at or 0.0 for document in documents)
        ended = max(document.finished_at or 0.0 for document in documents)
        return Speed(len(documents) / (ended - began), cpu / len(documents))


def cpu_of_all() -> float:
    """Processor time of this process and of all children that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    main()
