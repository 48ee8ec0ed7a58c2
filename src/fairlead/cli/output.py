"""What commands print: JSON, tables, fields, and numbers as people read them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from fairlead.model.json import to_dict
from fairlead.sd_notify import STOPPING, notify

if TYPE_CHECKING:
    from fairlead.model.capacity import Capacity, PulledStep, StepCapacity
    from fairlead.model.customers import Fairness, Share

T = TypeVar("T")
NARROWEST = 72
"""The least width of a table, in columns; a narrower terminal wraps the lines."""
ELASTIC, SHORTEST, GAP = frozenset(["account", "customer", "name", "error"]), 8, 2
"""The columns that may be truncated, to how many characters, and the gap between columns."""


def is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def one_by_one(
    ids: Sequence[str], act: Callable[[str], T], show: Callable[[list[T]], None]
) -> None:
    """Act on each id, then show all results; after an error, those of the ids before it."""
    results: list[T] = []
    try:
        for id_ in ids:
            results.append(act(id_))  # noqa: PERF401 (after an error, the list has the results)
    finally:
        if results:
            show(results)


def print_lines(lines: Iterable[str]) -> None:
    """Lines to stdout; without any, nothing."""
    click.echo("".join(f"{line}\n" for line in lines), nl=False)


def print_deleted(names: list[str], *, as_json: bool) -> None:
    """What a command deleted, by id or name."""
    if as_json:
        print_json({"deleted": names})
    else:
        print_lines(safe(f"{name}  deleted") for name in names)


def print_json(value: Struct | dict[str, Any]) -> None:
    """A record, or a dict with records in it, as JSON to stdout."""
    click.echo(json.dumps(to_dict(value), indent=2, ensure_ascii=not is_utf8()))


def print_json_line(value: dict[str, Any]) -> None:
    """A dict as one line of JSON to stdout."""
    click.echo(json.dumps(value, ensure_ascii=not is_utf8()))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str) -> None:
    """Rows with aligned columns to stdout; on a terminal, truncated to its width."""
    rows = list(rows)
    if not rows:
        click.echo(empty, err=True)
        return
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 (slow to import)

    lines = [list(columns), *([safe(cell) for cell in row] for row in rows)]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    if sys.stdout.isatty():
        filled = [any(cells[1:]) for cells in zip(*lines, strict=True)]
        widths = [width * is_filled for width, is_filled in zip(widths, filled, strict=True)]
        widths = _fitted(columns, widths, max(shutil.get_terminal_size().columns, NARROWEST))
    for number, line in enumerate(lines):
        cells = [
            set_cell_size(cell if cell_len(cell) <= width else cell[: width - 1] + "…", width)
            for cell, width in zip(line, widths, strict=True)
            if width
        ]
        click.secho((GAP * " ").join(cells).rstrip(), bold=number == 0 or None)


def _fitted(columns: Sequence[str], widths: list[int], room: int) -> list[int]:
    """Widths that fit into the room: names are truncated first, then the last columns get 0.

    Ids, states and numbers are shown whole or not at all.
    """
    fitted = [min(w, SHORTEST) if c in ELASTIC else w for c, w in zip(columns, widths, strict=True)]
    left_out = []
    while _total(fitted) > room:
        last = max(index for index, width in enumerate(fitted) if width)
        left_out.append(columns[last])
        fitted[last] = widths[last] = 0
    if left_out:
        names = ", ".join(reversed(left_out))
        click.echo(f"left out for lack of room (--json has them): {names}", err=True)
    for index, width in enumerate(widths):
        fitted[index] += min(width - fitted[index], room - _total(fitted))
    return fitted


def _total(widths: Sequence[int]) -> int:
    return sum(width + GAP for width in widths if width) - GAP


def print_record(record: Struct, *, as_json: bool) -> None:
    """A record as JSON, or with one line for each field."""
    if as_json:
        print_json(record)
    else:
        print_fields(to_dict(record))


def print_fields(fields: Mapping[str, Any], indent: str = "") -> None:
    """One line for each field that has a value; nested fields are indented."""
    present = {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value not in ({}, "", [])
    }
    width = max([15, *(len(f"{indent}{name}:") for name in present)])
    for name, value in present.items():
        label = f"{indent}{name}:"
        if isinstance(value, Mapping):
            click.echo(safe(label))
            print_fields(value, indent + "  ")
        else:
            click.echo(safe(f"{label:<{width}} {_field_text(value)}"))


def _field_text(value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, float):
        return str(round(value, 4)).removesuffix(".0")
    if isinstance(value, list | tuple):
        if any(isinstance(member, Mapping | list | tuple) for member in value):
            return json.dumps(value, ensure_ascii=False)
        return ", ".join(map(_field_text, value))
    return str(value)


def plain_minus(text: str) -> str:
    """The text as it is on a terminal; elsewhere with ASCII minus signs, for programs."""
    return text if sys.stdout.isatty() else text.replace("\u2212", "-")


def announce_stop() -> None:
    """Say that a server or worker is draining; signal handlers may call it."""
    notify(STOPPING)
    with suppress(OSError):  # stderr may be closed, which must not prevent the stop
        # Unbuffered: a signal may interrupt code that is writing to the buffer.
        os.write(
            2, b"fairlead: finishing running documents; press Ctrl-C again to stop immediately\n"
        )


def safe(text: str) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def counted(number: int, thing: str) -> str:
    """A number with its noun, in the plural where it needs one."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """A duration in the unit that fits it; empty for None."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def balance(share: Share) -> str:
    """How far an account is ahead of its share of the work, or behind it."""
    if round(share.behind, 3) == 0:
        return ""
    return f"{duration(abs(share.behind))} {'behind' if share.behind > 0 else 'ahead'}"


def step_words(step: StepCapacity) -> str:
    """The use of a step, such as "classify 3 of 8 busy"."""
    if not step.engines:
        return f"{step.step} cannot run"
    if not step.capacity:
        return f"{step.step} is starting"
    return f"{step.step} {step.busy:,} of {step.capacity:,} busy"


def pulled_words(pulled: PulledStep) -> str:
    """Which programs claim the documents of a pulled step."""
    if not pulled.keys:
        return f"{pulled.step}: no program claims its documents"
    keys = f"key{'' if len(pulled.keys) == 1 else 's'} {', '.join(pulled.keys)}"
    return f"{pulled.step}: claimed by {counted(len(pulled.keys), 'program')}, {keys}"


def print_problems(capacity: Capacity) -> None:
    """A line to stderr for each pipeline that cannot run."""
    for problem in capacity.problems:
        click.echo(safe(str(problem.message)), err=True)


def fairness_words(fairness: Fairness) -> str:
    """The fairness figures in one line."""
    parts = [f"policy {fairness.policy}"]
    if fairness.jain_index is not None:
        parts.append(f"Jain's index {fairness.jain_index:.2f} of customers that can start")
    worst = fairness.worst
    if worst is not None and worst.behind > 0:
        parts.append(f"furthest behind its share: {worst.name}, {duration(worst.behind)}")
    if fairness.most_overdue is not None:
        customer, seconds = fairness.most_overdue.customer, fairness.most_overdue.seconds
        parts.append(f"longest without a start: {customer}, {duration(seconds)}")
    if fairness.lane_share is not None:
        parts.append(f"overdue lane: {fairness.lane_share:.0%} of starts")
    if fairness.newcomer_bound is not None:
        parts.append(f"a new customer starts within {duration(fairness.newcomer_bound)}")
    if fairness.start_bound is not None:
        parts.append(f"every customer that can start does within {duration(fairness.start_bound)}")
    return "; ".join(parts)
