"""Compares a text with its reference: words, and rows of tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

WORD = re.compile(r"\w+")
CELLS = re.compile(r"(?<!\\)\|")
RULE = re.compile(r"[-: ]*")

Row = tuple[str, ...]


def words(text: str) -> Counter[str]:
    return Counter(WORD.findall(text.casefold()))


def row(cells: Iterable[str]) -> Row:
    """Return the cells that are not empty, without escapes and with single spaces."""
    texts = (" ".join(cell.replace("\\", "").split()) for cell in cells)
    return tuple(text for text in texts if text)


def rows(all_cells: Iterable[Iterable[str]]) -> list[Row]:
    """Return the rows with at least two cells."""
    return [texts for cells in all_cells if len(texts := row(cells)) > 1]


def markdown_rows(markdown: str) -> list[Row]:
    lines = (line.strip() for line in markdown.split("\n"))
    tables = (
        CELLS.split(line)[1:-1] for line in lines if line.startswith("|") and line.endswith("|")
    )
    return rows(cells for cells in tables if not all(map(RULE.fullmatch, cells)))


@dataclass
class Score:
    """Sums over documents of one kind."""

    documents: int = 0
    recalls: list[float] = field(default_factory=list)
    precisions: list[float] = field(default_factory=list)
    rows: int = 0
    rows_kept: int = 0
    false_tables: int = 0  # documents with rows, without any in the reference
    seconds: list[float] = field(default_factory=list)

    def add_time(self, seconds: float) -> None:
        self.documents += 1
        self.seconds.append(seconds)

    def add_words(self, text: str, reference: Counter[str]) -> None:
        extracted = words(text)
        common = (extracted & reference).total()
        if reference:
            self.recalls.append(common / reference.total())
            self.precisions.append(common / max(1, extracted.total()))

    def add_rows(self, markdown: str, reference: list[Row]) -> None:
        extracted = markdown_rows(markdown)
        self.rows += len(reference)
        self.rows_kept += (Counter(extracted) & Counter(reference)).total()
        self.false_tables += bool(extracted and not reference)

    def cells(self) -> list[str]:
        """Return recall, precision, rows kept, false tables and time, each as text."""
        kept = f"{self.rows_kept / self.rows:.0%} of {self.rows}" if self.rows else "–"
        mean = f"{1000 * sum(self.seconds) / len(self.seconds):.1f}" if self.seconds else "–"
        return [_mean(self.recalls), _mean(self.precisions), kept, str(self.false_tables), mean]


def _mean(shares: list[float]) -> str:
    return f"{sum(shares) / len(shares):.0%}" if shares else "–"
