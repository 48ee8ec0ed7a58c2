"""The result as a table for people, with ratios to pgqueuer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol


class Result(Protocol):
    """A row of the result."""

    @property
    def name(self) -> str: ...
    @property
    def batch(self) -> int | None: ...
    @property
    def per_s(self) -> float: ...
    @property
    def cpu_us(self) -> float: ...


HEAD = ("name", "batch", "documents/s", "CPU µs", "rate ratio", "CPU ratio")


def table(rows: Sequence[Result], durability: Mapping[str, str], processes: int) -> Iterator[str]:
    """Lines of Markdown. Ratios are to pgqueuer with the same batch, or with its batches of 50."""
    yield f"No-op work in {processes} processes; CPU of workers and server, per document.\n"
    yield line(HEAD)
    yield line(["---", *["---:"] * (len(HEAD) - 1)])
    for row in rows:
        batch = "" if row.batch is None else str(row.batch)
        figures = (f"{row.per_s:,.0f}", f"{row.cpu_us:,.0f}")
        yield line([row.name, batch, *figures, *ratios(row, rows)])
    yield "\nDurability:\n"
    for name, text in durability.items():
        yield f"- {name}: {text}"


def ratios(row: Result, rows: Sequence[Result]) -> tuple[str, str]:
    name = "pgqueuer-submit" if row.name.endswith("-submit") else "pgqueuer"
    wanted = [(name, row.batch), (name, 50)]
    by_key = {(other.name, other.batch): other for other in rows}
    base = next((by_key[key] for key in wanted if key in by_key), None)
    if base is None:
        return "", ""
    return f"{row.per_s / base.per_s:.2f}", f"{row.cpu_us / base.cpu_us:.2f}"


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
