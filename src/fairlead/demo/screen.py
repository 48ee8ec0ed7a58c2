"""The demo's screen: a live table while it runs, and the result at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.resources import files
from io import StringIO
from pathlib import Path

from rich.box import SIMPLE_HEAVY
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fairlead.demo.scenario import Scenario, Standing, WaitReport

REFRESH_SECONDS = 0.2
PICTURE_COLUMNS = 84
"""Enough for the verdict, with every figure whole."""


class LiveScreen:
    """A live table on stderr, redrawn five times a second; plain lines without a terminal."""

    def __init__(self, play: Scenario) -> None:
        self._play = play
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0
        self._shown = -1

    def __enter__(self) -> LiveScreen:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def tick(self) -> None:
        """Show how things are, if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + REFRESH_SECONDS
        standings = self._play.standings()
        if self._console.is_terminal:
            self._live.update(live_table(standings), refresh=True)
        else:
            self._write_line(standings)

    def _write_line(self, standings: Sequence[Standing]) -> None:
        """One line for each tenth of the work."""
        done = sum(each.done for each in standings)
        tenth = 10 * done // self._play.documents_in_all
        if tenth != self._shown:
            self._shown = tenth
            self._console.print(f"{done} of {self._play.documents_in_all} documents done")


def live_table(standings: Sequence[Standing]) -> Table:
    """Each customer's pending documents, priority and waiting times now."""
    table = Table(
        title="Documents by customer", title_justify="left", box=SIMPLE_HEAVY, padding=(0, 0)
    )
    table.add_column("customer\n", no_wrap=True)
    for column in ("pend-\ning", "pro-\ncessing", "\ndone", "next\nprio.", "mean\nwait", "longest"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in standings:
        table.add_row(
            Text(each.customer),
            str(each.waiting + each.processing),
            str(each.processing),
            _bar(each.done, each.documents),
            "–" if each.priority is None else str(each.priority),
            f"{each.mean_wait:.1f} s",
            f"{each.longest_wait:.1f} s",
        )
    return table


def verdict_table(verdicts: Sequence[WaitReport]) -> Table:
    """How long each customer waited, compared with first come, first served on the same run."""
    table = Table(
        title="Waiting time in seconds, compared with first come, first served (FIFO)",
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAVY,
    )
    table.add_column("customer\n", no_wrap=True)
    table.add_column("docu-\nments", justify="right")
    table.add_column("prio-\nrities", justify="right")
    table.add_column("Fairlead\nmean", justify="right", style="green", no_wrap=True)
    table.add_column("Fairlead\nlongest", justify="right", style="green", no_wrap=True)
    table.add_column("FIFO\nmean", justify="right", style="red", no_wrap=True)
    table.add_column("FIFO\nlongest", justify="right", style="red", no_wrap=True)
    for each in verdicts:
        table.add_row(
            Text(each.customer),
            str(each.documents),
            _levels(each.priorities),
            *(f"{wait:.2f}" for wait in (each.waited.mean, each.waited.max)),
            *(f"{wait:.2f}" for wait in (each.fifo.mean, each.fifo.max)),
        )
    return table


def draw_picture(table: Table, target: Path) -> None:
    """The table as an SVG that needs nothing from outside."""
    console = Console(record=True, width=PICTURE_COLUMNS, file=StringIO(), highlight=False)
    console.print(table)
    template = files(__package__).joinpath("picture.svg").read_text("utf-8")
    target.write_text(console.export_svg(title="make demo", code_format=template), "utf-8")


def _levels(priorities: tuple[int, int]) -> str:
    first, last = priorities
    return str(first) if first == last else f"{first}–{last}"


def _bar(done: int, documents: int, width: int = 10) -> str:
    filled = width * done // documents
    return f"{'█' * filled}{'░' * (width - filled)} {done:>3}"
