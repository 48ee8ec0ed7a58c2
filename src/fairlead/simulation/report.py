"""The report of a simulation: one HTML file without scripts or external resources.

Customers' names come from the trace and may be hostile: they are made printable, then escaped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from itertools import accumulate, pairwise
from string import Template
from typing import NamedTuple

from fairlead.simulation.simulate import Run, acceptances
from fairlead.simulation.summary import Summary, WaitStatistics
from fairlead.simulation.trace import Arrival

LISTED = 50
_DRAWN = 20
_POINTS = 200
_WIDTH, _HEIGHT = 900, 260
_LEFT, _BAR = 200, 22


class Report(NamedTuple):
    """The content of a report. `fifo` is the same trace first come, first served."""

    settings: Mapping[str, str]
    arrivals: Sequence[Arrival]
    runs: Sequence[Run]
    summary: Summary
    fifo: Summary | None = None


def render(report: Report) -> str:
    others = len(report.summary.customers) - LISTED
    times, levels = _pending(report.arrivals, report.runs)
    template = resources.files(__package__ or "").joinpath("report.html")
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=_safe(f"Simulation: {report.settings.get('policy', '')}"),
        settings="\n".join(
            f"<dt>{_safe(name)}</dt><dd>{_safe(value)}</dd>"
            for name, value in report.settings.items()
        ),
        head=_head(report),
        rows="\n".join(_rows(report)),
        others=f"<p>and {others} others</p>" if others > 0 else "",
        pending=_pending_svg(times, levels),
        pending_key="".join(_key(_colour(level), level) for level in levels),
        waits=_waits_svg(report),
        waits_key=_waits_key(report),
    )


def printable(text: str) -> str:
    """The text with escapes for everything that does not print, such as control characters."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _safe(text: str) -> str:
    return escape(printable(text))


def _head(report: Report) -> str:
    names = ["customer", "documents", "mean", "p50", "p95", "max"]
    names += ["fifo mean", "fifo p95", "fifo max"] if report.fifo else []
    cells = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f"<tr>{cells}</tr>"


def _rows(report: Report) -> Iterable[str]:
    fifo = report.fifo
    for customer, waits in list(report.summary.customers.items())[:LISTED]:
        yield _row("<tr>", customer, waits, fifo and fifo.customers[customer])
    yield _row('<tr class="whole">', "all", report.summary.whole, fifo and fifo.whole)


def _row(opening: str, name: str, waits: WaitStatistics, fifo: WaitStatistics | None) -> str:
    numbers = [waits.mean, waits.p50, waits.p95, waits.max]
    numbers += [fifo.mean, fifo.p95, fifo.max] if fifo else []
    cells = [_safe(name), str(waits.documents), *(f"{number:,.1f}" for number in numbers)]
    return opening + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _key(colour: str, text: object) -> str:
    return f'<span class="key" style="background:{colour}"></span>{text}'


def _waits_key(report: Report) -> str:
    own = _key("var(--own)", "95 of 100 documents waited at most this long, in seconds")
    return own + (_key("var(--other)", "the same under fifo") if report.fifo else "")


def _colour(level: int) -> str:
    """From green for priority 1 to red for 9 and all beyond."""
    return f"hsl({150 - 150 * min(level - 1, 8) / 8:.0f} 55% 50%)"


def _pending(
    arrivals: Sequence[Arrival], runs: Sequence[Run]
) -> tuple[list[float], dict[int, list[int]]]:
    """`_POINTS` evenly spread times, and the pending documents of each priority at these times."""
    accepted = acceptances(arrivals)
    first, last = accepted[0][0], max(run.finished for run in runs)
    times = [first + (last - first) * step / (_POINTS - 1) for step in range(_POINTS)]
    levels = {}
    for level in sorted({run.priority for run in runs}):
        arrived = [at for at, row in accepted if runs[row].priority == level]
        finished = sorted(run.finished for run in runs if run.priority == level)
        levels[level] = [bisect_right(arrived, at) - bisect_right(finished, at) for at in times]
    return times, levels


def _pending_svg(times: list[float], levels: dict[int, list[int]]) -> str:
    stacked = list(accumulate(levels.values(), _sum, initial=[0] * len(times)))
    top = max(1, *stacked[-1])
    areas = "\n".join(
        _area(below, above, top, _colour(level))
        for level, (below, above) in zip(levels, pairwise(stacked), strict=True)
    )
    foot = _HEIGHT + 16
    return (
        f'<svg viewBox="0 -18 {_WIDTH} {foot + 24}" role="img" aria-label="Pending documents">\n'
        f'{areas}\n<line class="axis" x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}"/>\n'
        f'<text x="2" y="-5">{top:,} at most</text>\n'
        f'<text x="2" y="{foot}">{times[0]:.12g} s</text>\n'
        f'<text x="{_WIDTH - 2}" y="{foot}" text-anchor="end">{times[-1]:.12g} s</text>\n'
        "</svg>"
    )


def _sum(first: list[int], second: list[int]) -> list[int]:
    return [sum(pair) for pair in zip(first, second, strict=True)]


def _area(below: list[int], above: list[int], top: int, colour: str) -> str:
    upper = [_point(step, number, top) for step, number in enumerate(above)]
    lower = [_point(step, number, top) for step, number in enumerate(below)]
    return f'<polygon fill="{colour}" points="{" ".join(upper + lower[::-1])}"/>'


def _point(step: int, number: int, top: int) -> str:
    return f"{_WIDTH * step / (_POINTS - 1):.1f},{_HEIGHT * (1 - number / top):.1f}"


def _waits_svg(report: Report) -> str:
    drawn = list(report.summary.customers.items())[:_DRAWN]
    fifo = report.fifo.customers if report.fifo else {}
    longest = max(max(waits.p95, fifo.get(name, waits).p95) for name, waits in drawn)
    scale = (_WIDTH - _LEFT - 90) / longest if longest > 0 else 0.0
    bars = "\n".join(
        _bars(number, name, waits, fifo.get(name), scale)
        for number, (name, waits) in enumerate(drawn)
    )
    height = len(drawn) * _BAR
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Waits">\n{bars}\n</svg>'


def _bars(
    number: int, name: str, waits: WaitStatistics, fifo: WaitStatistics | None, scale: float
) -> str:
    top = number * _BAR
    # Shorten after printable() made it longer, and before HTML escapes, which must stay whole.
    label = printable(name)
    label = label if len(label) <= 26 else label[:25] + "…"
    other = _bar("other", top + 12, fifo.p95 * scale) if fifo else ""
    end = _LEFT + max(waits.p95, fifo.p95 if fifo else 0.0) * scale + 6
    return (
        f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(label)}</text>'
        f"{_bar('own', top + 3, waits.p95 * scale)}{other}"
        f'<text x="{end:.1f}" y="{top + 15}">{waits.p95:,.1f}</text>'
    )


def _bar(kind: str, top: int, width: float) -> str:
    return f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{width:.1f}" height="8"/>'
