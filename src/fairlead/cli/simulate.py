"""`fairlead simulate`: run a policy on a trace in virtual time."""

from __future__ import annotations

import io
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fairlead.cli.options import no_url_option, setting_help
from fairlead.errors import InvalidSetting, UsageError
from fairlead.policy.classic import (
    DEFAULT_RESET_INTERVAL,
    DEFAULT_THRESHOLDS,
    ClassicPolicy,
    FifoPolicy,
    Policy,
    check_reset,
)
from fairlead.policy.fair import DEFAULT_UNIT, FairRule
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.simulation.report import LISTED, Report, printable, render
from fairlead.simulation.simulate import Run, simulate
from fairlead.simulation.summary import Summary, WaitStatistics, summarise
from fairlead.simulation.trace import Arrival, read_trace, write_outcome

if TYPE_CHECKING:
    from rich.table import Table


POLICIES = ("classic", "fair", "fifo")


class Plan(NamedTuple):
    """A policy with its overdue lane, and the settings to print."""

    policy: Policy | FairRule
    lane: OverdueLane | None
    settings: dict[str, object]


def _plan(
    name: str,
    *,
    reset_interval: float,
    reset: str,
    thresholds: str,
    overdue_lane: bool,
    overdue_after: float | None,
    unit: float,
) -> Plan:
    if name == "fifo":  # its order has no overdue lane
        return Plan(FifoPolicy(), None, {})
    policy: ClassicPolicy | FairRule
    settings: dict[str, object]
    if name == "classic":
        policy = ClassicPolicy(reset_interval, _thresholds(thresholds), check_reset(reset))
        settings = {"reset_interval": policy.reset_interval, "reset": policy.reset}
    else:
        policy = FairRule(
            unit=unit, reset_interval=reset_interval, thresholds=_thresholds(thresholds)
        )
        settings = {"unit": policy.unit, "reset_interval": policy.reset_interval}
    lane = None
    if overdue_lane:
        lane = OverdueLane(after=reset_interval if overdue_after is None else overdue_after)
    settings |= {"thresholds": list(policy.thresholds), "overdue_after": lane and lane.after}
    return Plan(policy, lane, settings)


class SimulationResult(NamedTuple):
    """A simulation, and the summary of the same trace first come, first served."""

    arrivals: list[Arrival]
    runs: list[Run]
    settings: dict[str, object]
    summary: Summary
    fifo: Summary | None


@click.command("simulate", short_help="Simulate a policy on a trace of your own.")
@no_url_option
@click.argument("trace", type=click.Path(path_type=str))
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="classic",
    show_default=True,
    help="Policy to simulate.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Number of workers."
)
@click.option(
    "--reset-interval",
    type=float,
    default=DEFAULT_RESET_INTERVAL,
    show_default=True,
    metavar="SECONDS",
    help=setting_help("reset_interval"),
)
@click.option(
    "--reset",
    type=click.Choice(["idle", "window"]),
    default="idle",
    show_default=True,
    help=setting_help("reset"),
)
@click.option(
    "--thresholds",
    default=",".join(map(str, DEFAULT_THRESHOLDS)),
    show_default=True,
    metavar="N,N,…",
    help=setting_help("thresholds"),
)
@click.option("--overdue-lane/--no-overdue-lane", default=True, help=setting_help("overdue_lane"))
@click.option(
    "--overdue-after",
    type=float,
    metavar="SECONDS",
    help=setting_help("overdue_after"),
)
@click.option(
    "--unit",
    type=float,
    default=DEFAULT_UNIT,
    show_default=True,
    metavar="SECONDS",
    help=setting_help("unit"),
)
@click.option(
    "--output", metavar="OUT.csv", help="Write the start and end of each document; -: stdout."
)
@click.option("--report", metavar="OUT.html", help="Write an HTML report with summary and charts.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def simulate_command(
    *,
    trace: str,
    policy: str,
    workers: int,
    output: str | None,
    report: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Show how long the documents of TRACE.csv would have waited.

    TRACE.csv has the columns at, customer, seconds and optionally weight, estimate; -: stdin.
    Only fair uses weights and estimates.
    """
    _check_targets(output, report, as_json=as_json)
    arrivals = read_trace(sys.stdin.buffer if trace == "-" else trace)
    result = _run(arrivals, _plan(policy, **settings), workers)
    if report is not None:
        write_atomically(Path(report), _report(result))
    if output is not None and output != "-":
        write_atomically(Path(output), _outcome(result))
    _print(result, to_csv=output == "-", as_json=as_json)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file atomically; after a FileError, the old one is unchanged."""
    try:
        # Links are followed, and anything else than a plain file, such as a pipe, is written to.
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8", newline="")
        else:
            _replace(target, text)
    except (OSError, ValueError, RuntimeError) as error:
        raise click.FileError(
            str(path), hint=getattr(error, "strerror", None) or str(error)
        ) from None


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f".fairlead-{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _check_targets(output: str | None, report: str | None, *, as_json: bool) -> None:
    if report == "-":
        raise UsageError("--report requires a file name; got -")
    if output == "-" and as_json:
        raise UsageError("--output - and --json both write to stdout; give one of them")
    if output is not None and output == report:
        raise UsageError(f"--output and --report must be different files; got {output!r} for both")


def _thresholds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidSetting(
            f"thresholds must be whole numbers separated by commas, such as -2,-4,-6; got {text!r}"
        ) from None


def _run(arrivals: list[Arrival], plan: Plan, workers: int) -> SimulationResult:
    runs = simulate(arrivals, plan.policy, workers, plan.lane)
    fifo = None
    if not isinstance(plan.policy, FifoPolicy):
        fifo = summarise(arrivals, simulate(arrivals, FifoPolicy(), workers, None))
    settings = {"policy": plan.policy.label, "workers": workers, **plan.settings}
    return SimulationResult(arrivals, runs, settings, summarise(arrivals, runs), fifo)


def _report(result: SimulationResult) -> str:
    settings = {name.replace("_", " "): _shown(value) for name, value in result.settings.items()}
    return render(Report(settings, result.arrivals, result.runs, result.summary, result.fifo))


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g} s"
    return "off" if value is None else str(value)


def _outcome(result: SimulationResult) -> str:
    text = io.StringIO(newline="")
    write_outcome(text, result.arrivals, result.runs)
    return text.getvalue()


def _print(result: SimulationResult, *, to_csv: bool, as_json: bool) -> None:
    if to_csv:
        # As bytes: a CSV is UTF-8, whatever the encoding of the terminal.
        sys.stdout.buffer.write(_outcome(result).encode())
    elif as_json:
        click.echo(json.dumps(_as_json(result), indent=2))
    else:
        _print_table(result)


def _as_json(result: SimulationResult) -> dict[str, object]:
    fifo = result.fifo
    customers = [
        {"customer": name, **_waits_json(waits, fifo and fifo.customers[name])}
        for name, waits in result.summary.customers.items()
    ]
    return {
        "settings": result.settings,
        "started_by_lane": result.summary.lane,
        "all": _waits_json(result.summary.whole, fifo and fifo.whole),
        "customers": customers,
    }


def _waits_json(waits: WaitStatistics, fifo: WaitStatistics | None) -> dict[str, object]:
    fields: dict[str, object] = {"documents": waits.documents, "wait": _seconds(waits)}
    return fields | ({"fifo": _seconds(fifo)} if fifo else {})


def _seconds(waits: WaitStatistics) -> dict[str, float]:
    return {"mean": waits.mean, "p50": waits.p50, "p95": waits.p95, "max": waits.max}


def _print_table(result: SimulationResult) -> None:
    from rich.console import Console  # noqa: PLC0415 (slow to import)

    console = Console(file=sys.stdout, highlight=False)
    console.print(_table(result))
    others = len(result.summary.customers) - LISTED
    if others > 0:
        console.print(f"and {others} others")


def _table(result: SimulationResult) -> Table:
    from rich.table import Table  # noqa: PLC0415 (slow to import)

    table = Table(title="Seconds from submission to start", box=None, pad_edge=False)
    table.add_column("customer", overflow="fold")
    names = ["docu-\nments", "\nmean", "\np50", "\np95", "\nmax"]
    names += ["fifo\nmean", "fifo\np95", "fifo\nmax"] if result.fifo else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    fifo = result.fifo
    for customer, waits in list(result.summary.customers.items())[:LISTED]:
        _add_row(table, customer, waits, fifo and fifo.customers[customer])
    table.add_section()
    _add_row(table, "all", result.summary.whole, fifo and fifo.whole)
    return table


def _add_row(table: Table, name: str, waits: WaitStatistics, fifo: WaitStatistics | None) -> None:
    from rich.text import Text  # noqa: PLC0415 (slow to import)

    numbers: Sequence[float] = (waits.mean, waits.p50, waits.p95, waits.max)
    numbers = (*numbers, fifo.mean, fifo.p95, fifo.max) if fifo else numbers
    # Rich would take square brackets in a plain string for markup.
    table.add_row(Text(printable(name)), str(waits.documents), *map(_brief, numbers))


def _brief(seconds: float) -> str:
    """Seconds with few characters, so that nine columns fit into a terminal."""
    return f"{seconds:.1f}" if abs(seconds) < 1000 else f"{seconds:.0f}"
