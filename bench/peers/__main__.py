"""The command: `python -m bench.peers`."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import click

from bench.peers import environment, locks, waiting
from bench.peers.contestants import Contestant, contestants
from bench.peers.measure import BenchFailed, Effort, Figures, measure
from bench.peers.page import write_page
from bench.peers.servers import Servers, missing
from bench.peers.table import table

BUDGET = 21 * 60.0
"""Seconds after which no further measurement begins; all ends within 25 minutes."""


class Row(NamedTuple):
    """One row of the JSON."""

    name: str
    batch: int | None
    per_s: float
    cpu_us: float


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print only a list of rows in JSON.")
@click.option("--quick", is_flag=True, help="One short round, for a trial of under 3 minutes.")
@click.option("--only", metavar="NAME,...", help="Measure only these.")
@click.option("--batch", type=int, help="Measure only this batch size, and those without one.")
@click.option("--processes", default=2, show_default=True, help="Worker processes of each queue.")
@click.option("--rounds", default=3, show_default=True, help="Medians are taken over the rounds.")
@click.option("--documents", type=int, help="For each measurement, instead of some seconds' work.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Write the table there.")
@click.option("--from", "stored", type=click.File(), help="Rows of --json instead of a run.")
@click.option("--locks", "lock_waits", is_flag=True, help="Sample lock waits of 8 submitters.")
@click.option("--waiting", "waiting_documents", type=int, help="Claims with so many waiting.")
def main(
    as_json: bool,
    quick: bool,
    only: str | None,
    batch: int | None,
    processes: int,
    rounds: int,
    documents: int | None,
    page: Path | None,
    stored: TextIO | None,
    lock_waits: bool,
    waiting_documents: int | None,
) -> None:
    """Compare Fairlead with other queues: no-op work, acknowledged after it."""
    chosen = [
        contestant
        for contestant in choose(contestants(), only)
        if batch in (None, contestant.batch or batch)
    ]
    how = "One short round: a trial." if quick else f"Medians of {rounds} rounds."
    durability = {contestant.name: contestant.durability for contestant in chosen}

    def show(rows: Sequence[Row]) -> None:
        if page is not None:
            write_page(page, rows, durability, processes, how)
        if as_json:
            print(json.dumps([row._asdict() for row in rows]))
        else:
            print("\n".join(table(rows, durability, processes)))

    if stored is not None:
        show([Row(**row) for row in json.load(stored)])
        return
    with Servers() as servers:
        if lock_waits:
            locks.main(servers, seconds=3.0 if quick else 10.0)
            return
        if waiting_documents:
            names = [row.name for row in chosen] if only else []
            waiting.main(servers, waiting_documents, names)
            return
        chosen = without_peers_that_cannot_be_installed(chosen)
        effort = (
            Effort(processes, 1.0, 1.5, share=0.4, documents=documents)
            if quick
            else Effort(processes, 4.0, 4.0, documents=documents)
        )
        rows = compare(servers, chosen, effort, rounds=1 if quick else rounds)
    show(rows)


def choose(all_of_them: Sequence[Contestant], only: str | None) -> list[Contestant]:
    """The named contestants whose server is installed."""
    names = {contestant.name for contestant in all_of_them}
    chosen = set(only.split(",")) if only else names
    if unknown := chosen - names:
        raise click.BadParameter(f"expected {', '.join(sorted(names))}; got {', '.join(unknown)}")
    lacking = {
        contestant.server: package
        for contestant in all_of_them
        if (package := missing(contestant.server))
    }
    for name in sorted(names & chosen):
        server = next(contestant.server for contestant in all_of_them if contestant.name == name)
        if server in lacking:
            say(f"{name} is skipped: its server is missing; install {lacking[server]}")
    return [
        contestant
        for contestant in all_of_them
        if contestant.name in chosen and contestant.server not in lacking
    ]


def without_peers_that_cannot_be_installed(chosen: Sequence[Contestant]) -> list[Contestant]:
    if any(contestant.is_peer for contestant in chosen):
        try:
            environment.python()
        except subprocess.CalledProcessError as error:
            say(f"the peers are skipped: their installation failed: {error}")
            return [contestant for contestant in chosen if not contestant.is_peer]
    return list(chosen)


def compare(
    servers: Servers, chosen: Sequence[Contestant], effort: Effort, rounds: int
) -> list[Row]:
    """Medians over rounds in which each has its turn, so that noise affects all alike."""
    figures: dict[Contestant, list[Figures]] = {contestant: [] for contestant in chosen}
    began = time.monotonic()
    for number in range(rounds):
        for contestant in chosen:
            if time.monotonic() - began > BUDGET:
                continue
            say(f"round {number + 1} of {rounds}: {contestant.name}, batch {contestant.batch}")
            try:
                figures[contestant].append(measure(servers, contestant, effort))
            except BenchFailed as error:
                say(str(error))
    if time.monotonic() - began > BUDGET:
        say("the time was over before the last round; some medians are of fewer rounds")
    return [row_of(contestant, values) for contestant, values in figures.items() if values]


def row_of(contestant: Contestant, values: Sequence[Figures]) -> Row:
    per_s = statistics.median(value.per_s for value in values)
    cpu_us = statistics.median(value.cpu_us for value in values)
    return Row(contestant.name, contestant.batch, round(per_s, 1), round(cpu_us, 1))


def say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
