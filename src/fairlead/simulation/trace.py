"""Reads traces and writes outcomes: the two CSV files of the simulator."""

from __future__ import annotations

import csv
import io
import math
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

# Sums of numbers below this stay finite, so that no wait becomes infinite.
_LARGEST = 1e100


class Arrival(NamedTuple):
    """One row of a trace: a document, when it was submitted and how long it takes.

    `at_text` is the time as written in the trace, so that the outcome can repeat it exactly.
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
    any order. Empty lines and empty weights and estimates are ignored.

    Raises:
        InvalidTrace: The trace cannot be read; the message names the file and the line.
    """
    name, data = _load(source)
    rows = _numbered(name, _text(name, data))
    columns = _columns(name, next(rows, None))
    arrivals = [_TraceRow(f"{name}, line {line}", columns, cells).arrival() for line, cells in rows]
    if not arrivals:
        raise InvalidTrace(f"{name}: expected at least one row after the header; got none")
    return arrivals


def write_outcome(file: TextIO, arrivals: Sequence[Arrival], runs: Sequence[Run]) -> None:
    """Write one row per row of the trace, in its order.

    `at` is written as in the trace, other times so that reading them gives the same numbers.
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
    """The rows that are not empty, each with the number of its last line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InvalidTrace(
            f"{name}, line {reader.line_num}: expected comma-separated values; got {error}"
        ) from None


def _columns(name: str, header: tuple[int, list[str]] | None) -> list[str]:
    expected = f"the columns {', '.join(REQUIRED)} and optionally {', '.join(OPTIONAL)}"
    if header is None:
        raise InvalidTrace(f"{name}: expected {expected}; the file is empty")
    line, cells = header
    columns = [cell.strip() for cell in cells]
    joined = ",".join(columns)
    problems = [
        *(f"{column!r} is missing in {joined!r}" for column in REQUIRED if column not in columns),
        *(f"got the unknown column {c!r}" for c in columns if c not in REQUIRED + OPTIONAL),
        *(f"got {column!r} more than once" for column in columns if columns.count(column) > 1),
    ]
    if problems:
        raise InvalidTrace(f"{name}, line {line}: expected {expected}; {problems[0]}")
    return columns


class _TraceRow:
    """The cells of one line, by column; errors name the file and the line."""

    def __init__(self, where: str, columns: list[str], cells: list[str]) -> None:
        self._where = where
        if len(cells) != len(columns):
            raise self._error(f"{len(columns)} values", f"{len(cells)}")
        self._cells = dict(zip(columns, cells, strict=True))

    def arrival(self) -> Arrival:
        if not self._has("customer"):
            raise self._error("the name of a customer", repr(self._cells["customer"]))
        weight = self._number("weight") if self._has("weight") else 1.0
        if weight <= 0:
            raise self._error("a weight above 0", repr(self._cells["weight"]))
        return Arrival(
            at=self._number("at"),
            customer=self._cells["customer"],
            seconds=self._number_from_zero("seconds"),
            weight=weight,
            estimate=self._number_from_zero("estimate") if self._has("estimate") else None,
            at_text=self._cells["at"],
        )

    def _error(self, expected: str, got: str) -> InvalidTrace:
        return InvalidTrace(f"{self._where}: expected {expected}; got {got}")

    def _has(self, column: str) -> bool:
        return bool(self._cells.get(column, "").strip())

    def _number(self, column: str) -> float:
        text = self._cells[column]
        try:
            # float() accepts 1_000, which other tools do not.
            value = math.nan if "_" in text else float(text)
        except ValueError:
            value = math.nan
        if not abs(value) < _LARGEST:
            raise self._error(f"a finite number as {column}", repr(text))
        return value

    def _number_from_zero(self, column: str) -> float:
        value = self._number(column)
        if value < 0:
            raise self._error(f"{column} of 0 or more", repr(self._cells[column]))
        return value
