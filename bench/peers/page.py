"""Writes the results into a page of the documentation, between two marks."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.peers.table import Result, table

MARKS = ("<!-- begin: bench.peers --page -->\n", "<!-- end: bench.peers --page -->")


def write_page(
    path: Path, rows: Sequence[Result], durability: Mapping[str, str], processes: int, how: str
) -> None:
    """Replace the text between the marks by the date, the machine and the table."""
    begin, end = MARKS
    before, has_begin, rest = path.read_text("utf-8").partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"expected the marks {begin.strip()!r} and {end!r} in {path.name}")
    lines = [f"{datetime.now(UTC):%Y-%m-%d}, {machine()}. {how}", ""]
    lines += table(rows, durability, processes)
    path.write_text(f"{before}{begin}{chr(10).join(lines)}\n{end}{after}", "utf-8")


def machine() -> str:
    """Cores, processor, memory and Python, without the name of the computer."""
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text("utf-8"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model[1] if model else platform.machine()}), "
        f"{memory:.0f} GB of memory, Linux {platform.release()}, Python {platform.python_version()}"
    )
