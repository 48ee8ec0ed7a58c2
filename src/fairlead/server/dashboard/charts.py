"""Charts: pure functions from numbers to coordinates, which templates draw as SVG."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairlead.server.dashboard.last_hour import HOUR, LEVELS, STEP, PendingSample, Step

WIDTH, HEIGHT = 640, 180
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 22
"""Margins around the plot, for the labels of the axes."""
THIN = 2
"""Of many points, every second one is drawn, with the newest one."""
_NICE = (1, 2, 2.5, 5, 10)


class Mark(NamedTuple):
    """A mark of an axis: its coordinate and its value."""

    at: float
    value: float


class Shape(NamedTuple):
    """An SVG path, and the CSS class that colours it."""

    name: str
    path: str


@dataclass(frozen=True)
class Chart:
    """A chart for a template. `values` and `minutes` (before now) are the marks of its axes."""

    shapes: tuple[Shape, ...]
    values: tuple[Mark, ...]
    minutes: tuple[Mark, ...]
    highest: float
    resets: tuple[float, ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


class _Scale(NamedTuple):
    """Maps times and values to coordinates. `low` is at the bottom, `high` at the top."""

    since: float
    until: float
    low: float
    high: float

    def x(self, at: float) -> float:
        fraction = (at - self.since) / (self.until - self.since)
        return round(LEFT + max(0.0, min(1.0, fraction)) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        fraction = (value - self.low) / (self.high - self.low)
        return round(HEIGHT - BOTTOM - fraction * (HEIGHT - TOP - BOTTOM), 1)

    def minutes(self) -> tuple[Mark, ...]:
        """About four marks; their values are minutes before the end."""
        minutes = (self.until - self.since) / 60
        size = nice(minutes / 4)
        marks = [number * size for number in range(int(minutes / size) + 1)]
        return tuple(Mark(self.x(self.until - mark * 60), mark) for mark in marks)

    def values(self) -> tuple[Mark, ...]:
        size = max(1.0, nice((self.high - self.low) / 3))
        first, last = math.ceil(self.low / size), math.floor(self.high / size)
        marks = [number * size for number in range(first, last + 1)]
        return tuple(Mark(self.y(mark), mark) for mark in marks)


def nice(value: float) -> float:
    """The round number that follows, for the marks of an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _NICE if step * power >= value * 0.999)


def _line(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(points))


def pending_chart(samples: Sequence[PendingSample], now: float) -> Chart | None:
    """Pending documents by priority, stacked with priority 1 at the bottom, over the last hour."""
    points = [sample for sample in samples if sample.at >= now - HOUR]
    points = points[(len(points) - 1) % THIN :: THIN] if len(points) > 40 * THIN else points
    if len(points) < 2:
        return None
    highest = max(1, *(sum(point.pending) for point in points))
    scale = _Scale(min(points[0].at, now - 60), now, 0, nice(highest))
    x = [scale.x(point.at) for point in points]
    base = [0] * len(points)
    shapes = []
    for level in range(LEVELS):
        top = [low + point.pending[level] for low, point in zip(base, points, strict=True)]
        if top != base:
            upper = list(zip(x, map(scale.y, top), strict=True))
            lower = list(zip(x, map(scale.y, base), strict=True))
            shapes.append(Shape(f"p{level + 1}", _line(upper + lower[::-1]) + "Z"))
        base = top
    return Chart(tuple(shapes), scale.values(), scale.minutes(), highest)


def flow_chart(arrived: dict[int, int], ended: dict[int, int], now: float) -> Chart | None:
    """Documents that arrived and were completed in each minute of the last hour."""
    if not (arrived or ended):
        return None
    last = int(now) // 60
    minutes = range(last - 59, last + 1)
    lines = {
        name: [(minute * 60, _of_minute(numbers, minute)) for minute in minutes]
        for name, numbers in (("arrived", arrived), ("ended", ended))
    }
    highest = max(1, *(number for line in lines.values() for _, number in line))
    scale = _Scale(minutes[0] * 60, now, 0, nice(highest))
    shapes = tuple(Shape(name, _stairs(scale, line)) for name, line in lines.items())
    return Chart(shapes, scale.values(), scale.minutes(), highest)


def _of_minute(numbers: dict[int, int], minute: int) -> int:
    first = minute * 60 // STEP
    return sum(numbers.get(step, 0) for step in range(first, first + 60 // STEP))


def _stairs(scale: _Scale, points: Sequence[tuple[float, float]]) -> str:
    """A line that keeps the height of each point until the next one, and of the last to the end."""
    corners: list[tuple[float, float]] = []
    for at, value in points:
        if corners:
            corners.append((scale.x(at), corners[-1][1]))
        corners.append((scale.x(at), scale.y(value)))
    corners.append((scale.x(scale.until), corners[-1][1]))
    return _line(corners)


def staircase_chart(steps: Sequence[Step], now: float) -> Chart | None:
    """A customer's count over time, with a bar of the priorities, and marks at resets."""
    if not steps:
        return None
    lowest = min(-3, *(step.count for step in steps))
    scale = _Scale(min(steps[0].at, now - 60), now, -nice(-lowest), 0.5)
    line = Shape("count", _stairs(scale, [(step.at, step.count) for step in steps]))
    resets = tuple(scale.x(step.at) for step in steps if step.is_reset)
    bars = _priorities(scale, steps)
    return Chart((*bars, line), scale.values(), scale.minutes(), lowest, resets)


def _priorities(scale: _Scale, steps: Sequence[Step]) -> list[Shape]:
    bottom = HEIGHT - BOTTOM
    ends = [scale.x(step.at) for step in steps[1:]] + [scale.x(scale.until)]
    paths: defaultdict[int, str] = defaultdict(str)
    for step, end in zip(steps, ends, strict=True):
        start = scale.x(step.at)
        bar = f"M{start:g} {bottom - 6}H{max(end, start + 0.5):g}V{bottom}H{start:g}Z"
        paths[min(step.priority, LEVELS)] += bar
    return [Shape(f"p{level}", path) for level, path in sorted(paths.items())]
