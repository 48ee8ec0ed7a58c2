"""`fairlead top`: a live table of customers with pending documents."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from fairlead.cli.options import json_option
from fairlead.cli.output import (
    counted,
    duration,
    fairness_words,
    print_json,
    print_problems,
    print_table,
    safe,
    step_words,
)
from fairlead.cli.target import Target, open_target, target_options
from fairlead.model.customers import Customer, Customers

if TYPE_CHECKING:
    from fairlead.model.installation import Installation

CLEAR = "\x1b[H\x1b[2J"
MOST_ROWS = 40
"""Rows of the live table; `--once` shows all customers."""


@click.command("top")
@target_options
@click.option("--once", is_flag=True, help="Print the table once, as into a pipe.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds between updates.",
)
@json_option
def top_command(*, target: Target, once: bool, interval: float, as_json: bool) -> None:
    """Show customers with pending documents, their waits, the workers and steps, live."""
    with open_target(target) as installation:
        if as_json:
            customers, fairness = installation.queue.overview()
            print_json(Customers(_pending(customers), fairness))
        elif once or not sys.stdout.isatty():
            _print(installation, most=None)
        else:
            while True:
                _print(installation, most=MOST_ROWS)
                time.sleep(interval)


def _pending(customers: list[Customer]) -> list[Customer]:
    """The customers with pending documents, the longest wait first."""
    pending = [customer for customer in customers if customer.pending]
    return sorted(pending, key=lambda customer: (-(customer.oldest_wait or 0.0), customer.name))


def _print(installation: Installation, most: int | None) -> None:
    """Print the table once; with a limit of rows, in place of the one before."""
    capacity = installation.queue.capacity()
    customers, fairness = installation.queue.overview()
    pending = _pending(customers)
    if most is not None:
        click.echo(CLEAR, nl=False)
    waiting, processing = (
        sum(getattr(customer, name) for customer in customers) for name in ("waiting", "processing")
    )
    numbers = f"{waiting:,} waiting, {processing:,} processing"
    click.echo(f"{counted(capacity.workers, 'worker')}; {numbers}; policy {fairness.policy}")
    if capacity.steps:
        click.echo(safe(f"steps: {', '.join(map(step_words, capacity.steps))}"))
    columns = ["customer", "waiting", "processing", "oldest wait", "next priority", "paused"]
    print_table(columns, map(_row, pending[:most]), empty="nothing is pending")
    if most is not None and len(pending) > most:
        click.echo(f"and {counted(len(pending) - most, 'customer')} more")
    click.echo(safe(f"fairness: {fairness_words(fairness)}"), err=True)
    print_problems(capacity)


def _row(customer: Customer) -> list[str]:
    return [
        customer.name,
        str(customer.waiting),
        str(customer.processing),
        duration(customer.oldest_wait),
        str(customer.next_priority),
        "paused" if customer.paused else "",
    ]
