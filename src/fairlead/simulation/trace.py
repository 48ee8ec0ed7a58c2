"""Traces in, outcomes out: the two CSV files of the simulator."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TextIO

from fairlead.errors import InvalidTrace

if TYPE_CHECKING:
    from fairlead.simulation.simulate import Run

REQUIRED = ("at", "customer", "seconds")
OPTIONAL = ("weight", "estimate")
OUTCOME = ("at", "customer", "count", "priority", "started", "finished")

# Sums of numbers below this stay finite, so that no wait becomes infinite on the way.
_LARGEST = 1e100


class Arrival(NamedTuple):
    """One row of a trace: a document, when it was submitted and how long its work takes.

    `at_text` is the time as the trace wrote it, so that the outcome can repeat it exactly.
    """

    at: float
    customer: str
    seconds: float
    weight: float = 1.0
    estimate: float | None = None
    at_text: str = ""


def read_trace(source: str | os.PathLike[str] | IO[bytes] | IO[str]) -> list[Arrival]:
    """All rows of a trace, in its order.

    The header names `at`, `customer` and `seconds`, and optionally `weight` and `estimate`, in
    any order. Empty lines are passed over; an empty weight or estimate is one not given.

    Raises:
        InvalidTrace: The trace cannot be read; the message names the file and the line.
    """
    name, data = _load(source)
    rows = _numbered(name, _text(name, data))
    columns = _columns(name, next(rows, None))
    arrivals = [_arrival(_Row(name, line, columns, cells)) for line, cells in rows]
    if not arrivals:
        raise InvalidTrace(f"{name}: expected at least one row after the header; got none")
    return arrivals


def write_outcome(file: TextIO, arrivals: Sequence[Arrival], runs: Sequence[Run]) -> None:
    """Write one row per row of the trace, in its order.

    `at` is written as the trace wrote it, other times so that reading them back gives the same.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(OUTCOME)
    for arrival, run in zip(arrivals, runs, strict=True):
        at = arrival.at_text or repr(arrival.at)
        numbers = (run.count, run.priority, repr(run.started), repr(run.finished))
        writer.writerow((at, arrival.customer, *numbers))


def _load(source: str | os.PathLike[str] | IO[bytes] | IO[str]) -> tuple[str, bytes | str]:
    if not isinstance(source, str | os.PathLike):
        return _name_of(source), source.read()
    path = Path(source)
    try:
        return str(path), path.read_bytes()
    except FileNotFoundError:
        raise InvalidTrace(f"{path}: expected a trace; the file does not exist") from None
    except IsADirectoryError:
        raise InvalidTrace(f"{path}: expected a trace; this is a folder") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidTrace(f"{path}: expected a trace; it cannot be read: {reason}") from None


def _name_of(file: IO[bytes] | IO[str]) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) and name not in ("-", "<stdin>") else "standard input"


def _text(name: str, data: bytes | str) -> str:
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        got = f"byte 0x{data[error.start]:02x}"
        raise InvalidTrace(f"{name}, line {line}: expected text in UTF-8; got {got}") from None


def _numbered(name: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the line it ends on."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InvalidTrace(
            f"{name}, line {reader.line_num}: expected comma-separated values; got {error}"
        ) from None


def _columns(name: str, header: tuple[int, list[str]] | None) -> dict[str, int]:
    """Where each column stands."""
    expected = f"the columns {', '.join(REQUIRED)} and optionally {', '.join(OPTIONAL)}"
    if header is None:
        raise InvalidTrace(f"{name}: expected {expected}; the file is empty")
    line, cells = header
    names = [cell.strip() for cell in cells]
    problem = _header_problem(names)
    if problem:
        raise InvalidTrace(f"{name}, line {line}: expected {expected}; {problem}")
    return {column: place for place, column in enumerate(names)}


def _header_problem(names: list[str]) -> str | None:
    for column in REQUIRED:
        if column not in names:
            return f"{column!r} is missing in {','.join(names)!r}"
    for column in names:
        if column not in REQUIRED + OPTIONAL:
            return f"got the unknown column {column!r}"
        if names.count(column) > 1:
            return f"got {column!r} more than once"
    return None


class _Row:
    """The cells of one line, by column; complains with file and line."""

    def __init__(self, name: str, line: int, columns: dict[str, int], cells: list[str]) -> None:
        self.place = f"{name}, line {line}"
        self.columns = columns
        self.cells = cells
        if len(cells) != len(columns):
            raise self.wrong(f"{len(columns)} values", f"{len(cells)}")

    def wrong(self, expected: str, came: str) -> InvalidTrace:
        return InvalidTrace(f"{self.place}: expected {expected}; got {came}")

    def text(self, column: str) -> str:
        place = self.columns.get(column)
        return "" if place is None else self.cells[place]

    def number(self, column: str) -> float:
        text = self.text(column)
        value = _number(text)
        if value is None:
            raise self.wrong(f"a finite number as {column}", repr(text))
        return value

    def number_from_zero(self, column: str) -> float:
        value = self.number(column)
        if value < 0:
            raise self.wrong(f"{column} of 0 or more", repr(self.text(column)))
        return value


def _number(text: str) -> float | None:
    """The finite number that the text is, if it is one."""
    # Python reads 1_000 as a number; the makers of other tools would be surprised.
    if "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < _LARGEST else None


def _arrival(row: _Row) -> Arrival:
    customer = row.text("customer")
    if not customer.strip():
        raise row.wrong("the name of a customer", repr(customer))
    return Arrival(
        at=row.number("at"),
        customer=customer,
        seconds=row.number_from_zero("seconds"),
        weight=_weight(row),
        estimate=row.number_from_zero("estimate") if row.text("estimate").strip() else None,
        at_text=row.text("at"),
    )


def _weight(row: _Row) -> float:
    if not row.text("weight").strip():
        return 1.0
    weight = row.number("weight")
    if weight <= 0:
        raise row.wrong("a weight above 0", repr(row.text("weight")))
    return weight
