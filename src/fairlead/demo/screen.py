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

from fairlead.demo.scenario import CustomerProgress, Scenario, WaitReport

REFRESH_SECONDS = 0.2
PICTURE_COLUMNS = 84
"""Wide enough for the final table without line breaks."""


class LiveScreen:
    """A live table on stderr, redrawn five times a second; plain lines without a terminal."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
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
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + REFRESH_SECONDS
        progress = self._scenario.progress()
        if self._console.is_terminal:
            self._live.update(live_table(progress), refresh=True)
        else:
            self._write_line(progress)

    def _write_line(self, progress: Sequence[CustomerProgress]) -> None:
        """One line for each tenth of the work."""
        done = sum(customer.done for customer in progress)
        tenth = 10 * done // self._scenario.total_documents
        if tenth != self._shown:
            self._shown = tenth
            self._console.print(f"{done} of {self._scenario.total_documents} documents done")


def live_table(progress: Sequence[CustomerProgress]) -> Table:
    table = Table(
        title="Documents by customer", title_justify="left", box=SIMPLE_HEAVY, padding=(0, 0)
    )
    table.add_column("customer\n", no_wrap=True)
    for column in ("pend-\ning", "pro-\ncessing", "\ndone", "next\nprio.", "mean\nwait", "longest"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in progress:
        table.add_row(
            Text(row.customer),
            str(row.waiting + row.processing),
            str(row.processing),
            _bar(row.done, row.documents),
            "–" if row.priority is None else str(row.priority),
            f"{row.mean_wait:.1f} s",
            f"{row.longest_wait:.1f} s",
        )
    return table


def wait_table(reports: Sequence[WaitReport]) -> Table:
    table = Table(
        title="Waiting time in seconds, compared with first come, first served (FIFO)",
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAVY,
    )
    table.add_column("customer\n", no_wrap=True)
    table.add_column("docu-\nments", justify="right")
    table.add_column("prio-\nrities", justify="right")
    for policy, colour in (("Fairlead", "green"), ("FIFO", "red")):
        for figure in ("mean", "longest"):
            heading = f"{policy}\n{figure}"
            table.add_column(heading, justify="right", style=colour, no_wrap=True)
    for row in reports:
        waits = (row.waited.mean, row.waited.max, row.fifo.mean, row.fifo.max)
        first, last = row.priorities
        priorities = str(first) if first == last else f"{first}–{last}"
        figures = (f"{wait:.2f}" for wait in waits)
        table.add_row(Text(row.customer), str(row.documents), priorities, *figures)
    return table


def draw_picture(table: Table, target: Path) -> None:
    """Draw the table as an SVG without external references."""
    console = Console(record=True, width=PICTURE_COLUMNS, file=StringIO(), highlight=False)
    console.print(table)
    template = files(__package__).joinpath("picture.svg").read_text("utf-8")
    target.write_text(console.export_svg(title="make demo", code_format=template), "utf-8")


def _bar(done: int, documents: int, width: int = 10) -> str:
    filled = width * done // documents
    return f"{'█' * filled}{'░' * (width - filled)} {done:>3}"
