"""Draws the pictures of docs/discussion/fair.md from simulator runs: `make fair-pictures`.

Each panel shows when documents of each customer were processed: a row for a customer, a bar for a
document from its start to its end, a triangle where documents were submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import click

from bench.policies import POLICIES
from fairlead.policy.fair import FairRule
from fairlead.simulation.simulate import Run, simulate
from fairlead.simulation.trace import Arrival

FOLDER = Path(__file__).parents[1] / "docs" / "fair"
WIDTH, LEFT, RIGHT = 900, 132, 118
ROW, BAR = 24, 14
COLOURS = ("#4c78a8", "#e07b39", "#4a9d6e", "#9467bd", "#c44e52")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:15px}"
    ".small{fill:#666;font-size:12px}.grid{stroke:#ddd}.axis{stroke:#888}"
)


class Panel(NamedTuple):
    """The run of a trace under one policy."""

    title: str
    runs: Sequence[Run]


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--scale", default=1.0, help="Part of the documents of the burst, for a short run.")
def main(folder: Path, scale: float) -> None:
    """Draw the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw(scale), "utf-8")


def newcomer(scale: float) -> str:
    """A burst of one customer, and two others that submit a little in the meantime."""
    arrivals = [Arrival(0.0, "burst", 6.0)] * round(40 * scale)
    arrivals += [Arrival(30.0, "newcomer", 6.0)] * 3 + [Arrival(60.0, "second", 6.0)] * 2
    panels = [run("fifo", arrivals, 1), run("classic", arrivals, 1), run("fair", arrivals, 1)]
    return picture(
        "One worker: a burst of 40 documents, then two small customers", arrivals, panels
    )


def long_documents(scale: float) -> str:
    """A customer with long documents beside one with as many short ones."""
    number = round(10 * scale)
    arrivals = [Arrival(0.0, "300 pages", 60.0)] * number + [Arrival(0.0, "1 page", 3.0)] * number
    arrivals += [Arrival(100.0, "20 pages", 12.0)] * 3
    panels = [run("classic", arrivals, 1), run("fair", arrivals, 1)]
    return picture(
        "One worker: ten long documents, ten short ones, and three later", arrivals, panels
    )


def heavy(scale: float) -> str:
    """Two customers beyond their allowance, the second later and with twice the weight."""
    number = round(120 * scale)
    arrivals = [Arrival(0.0, "first", 6.0)] * number
    arrivals += [Arrival(150.0, "weight 2", 6.0, weight=2.0)] * number
    arrivals += [Arrival(at, "small", 6.0) for at in (300.0, 600.0, 900.0)]
    rule = FairRule(allowance=10)
    runs = simulate(arrivals, rule, 1, POLICIES["fair"][1])
    panels = [run("fifo", arrivals, 1), run("classic", arrivals, 1)]
    panels.append(Panel("fair, with an allowance of 10 documents", runs))
    return picture("One worker: two large customers and a small one", arrivals, panels)


def run(policy: str, arrivals: Sequence[Arrival], workers: int) -> Panel:
    rule, lane = POLICIES[policy]
    return Panel(policy, simulate(arrivals, rule, workers, lane))


def picture(title: str, arrivals: Sequence[Arrival], panels: Sequence[Panel]) -> str:
    names = list(dict.fromkeys(arrival.customer for arrival in arrivals))
    end = max(run.finished for panel in panels for run in panel.runs)
    across = (WIDTH - LEFT - RIGHT) / end
    parts, top = [f'<text class="title" x="16" y="26">{escape(title)}</text>'], 52
    for panel in panels:
        parts.append(f'<text x="16" y="{top}" style="font-weight:600">{escape(panel.title)}</text>')
        parts.append(f'<text class="small" x="{WIDTH - 8}" y="{top}" {END}>mean wait</text>')
        parts += lanes(names, arrivals, panel.runs, top + 8, across)
        top += 8 + ROW * len(names) + 28
    grid = axis(end, top - 22, across, 52)
    return svg(WIDTH, top + 6, title, grid + parts)


END = 'text-anchor="end"'


def lanes(
    names: Sequence[str], arrivals: Sequence[Arrival], runs: Sequence[Run], top: int, across: float
) -> list[str]:
    """A row for each customer: its documents, and its mean wait."""
    parts = []
    for number, name in enumerate(names):
        y, colour = top + number * ROW, COLOURS[number % len(COLOURS)]
        own = [pair for pair in zip(arrivals, runs, strict=True) if pair[0].customer == name]
        wait = sum(run.started - arrival.at for arrival, run in own) / len(own)
        parts.append(f'<text x="{LEFT - 12}" y="{y + 12}" {END}>{escape(name)}</text>')
        parts.append(f'<text x="{WIDTH - 8}" y="{y + 12}" {END}>{wait:,.0f} s</text>')
        for _, run in own:
            width = max(1.0, (run.finished - run.started) * across - 0.6)
            parts.append(
                f'<rect x="{LEFT + run.started * across:.1f}" y="{y}" width="{width:.1f}" '
                f'height="{BAR}" rx="1.5" fill="{colour}"/>'
            )
        parts += [
            f'<path d="M{LEFT + at * across:.1f} {y + BAR + 1}l4 6h-8z" fill="{colour}"/>'
            for at in sorted({arrival.at for arrival, _ in own})
        ]
    return parts


def axis(end: float, y: int, across: float, top: int) -> list[str]:
    """Seconds below, with lines through all panels."""
    step = next(seconds for seconds in (10, 30, 60, 120, 300, 600, 1_200) if end / seconds <= 10)
    parts = []
    for at in range(0, int(end) + 1, step):
        x = LEFT + at * across
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{y}"/>')
        label = f"{at // 60} min" if step >= 60 else f"{at} s"
        parts.append(
            f'<text class="small" x="{x:.1f}" y="{y + 16}" text-anchor="middle">{label}</text>'
        )
    return parts


def fading(_scale: float) -> str:
    """How the recent work of an account fades after 1, 14 and 42 documents."""
    rule = FairRule()
    minutes, high, top, foot = 100, 42.0, 56, 300
    across, up = (WIDTH - LEFT - RIGHT) / minutes, (foot - top) / high
    title = "What an account has had lately fades, with a reset interval of 25 minutes"
    parts = [f'<text class="title" x="16" y="26">{title}</text>']
    for level in (0, 10, 20, 30, 42):
        y = foot - level * up
        parts.append(
            f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        )
        label = f"{level} documents" if level else "nothing"
        parts.append(f'<text class="small" x="{LEFT - 10}" y="{y + 4:.1f}" {END}>{label}</text>')
    for colour, documents in zip(COLOURS, (42, 14, 1), strict=False):
        debt = documents * rule.unit
        faded = rule.faded_at(debt, 0.0, rule.reset_interval) / 60
        points: list[tuple[float, float]] = [
            (minute, rule.faded(debt, minute * 60.0, rule.reset_interval) / rule.unit)
            for minute in range(int(faded) + 1)
        ]
        points.append((faded, 0.0))
        path = " ".join(f"{LEFT + x * across:.1f},{foot - y * up:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        )
        parts.append(
            f'<circle cx="{LEFT + faded * across:.1f}" cy="{foot}" r="4" fill="{colour}"/>'
        )
        parts.append(
            f'<text x="{LEFT + faded * across:.1f}" y="{foot - 20}" text-anchor="middle" '
            f'style="fill:{colour}">{faded:.0f} min</text>'
        )
    parts += axis(minutes * 60.0, foot + 4, across / 60, foot)
    return svg(WIDTH, foot + 34, title, parts)


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


PICTURES: dict[str, Callable[[float], str]] = {
    "newcomer": newcomer,
    "long-documents": long_documents,
    "heavy": heavy,
    "fading": fading,
}

if __name__ == "__main__":
    main()
