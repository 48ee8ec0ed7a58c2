"""Charts as shapes: numbers in, coordinates out. Templates draw them as SVG. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairlead.server.dashboard.last_hour import HOUR, LEVELS, STEP, PendingSample, Step

WIDTH, HEIGHT = 640, 180
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 22
"""Room around the field for the words of the axes."""
THIN = 2
"""Of many points, every so many are drawn, with the newest one."""
_NICE = (1, 2, 2.5, 5, 10)


class Mark(NamedTuple):
    """A line of an axis: where it lies, and the value that it stands for."""

    at: float
    value: float


class Shape(NamedTuple):
    """A path with the class that colours it."""

    name: str
    path: str


@dataclass(frozen=True)
class Chart:
    """Everything that a template draws. `minutes` before now and `values` are the axes' marks."""

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


class _Field(NamedTuple):
    """Where values lie. `low` is at the bottom, `high` at the top."""

    since: float
    until: float
    low: float
    high: float

    def x(self, at: float) -> float:
        part = (at - self.since) / (self.until - self.since)
        return round(LEFT + max(0.0, min(1.0, part)) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return round(HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM), 1)

    def minutes(self) -> tuple[Mark, ...]:
        """About four marks, by how many minutes before the end they lie."""
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
    field = _Field(min(points[0].at, now - 60), now, 0, nice(highest))
    x = [field.x(point.at) for point in points]
    base = [0] * len(points)
    shapes = []
    for level in range(LEVELS):
        top = [low + point.pending[level] for low, point in zip(base, points, strict=True)]
        if top != base:
            upper = list(zip(x, map(field.y, top), strict=True))
            lower = list(zip(x, map(field.y, base), strict=True))
            shapes.append(Shape(f"p{level + 1}", _line(upper + lower[::-1]) + "Z"))
        base = top
    return Chart(tuple(shapes), field.values(), field.minutes(), highest)


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
    field = _Field(minutes[0] * 60, now, 0, nice(highest))
    shapes = tuple(Shape(name, _stairs(field, line)) for name, line in lines.items())
    return Chart(shapes, field.values(), field.minutes(), highest)


def _of_minute(numbers: dict[int, int], minute: int) -> int:
    first = minute * 60 // STEP
    return sum(numbers.get(step, 0) for step in range(first, first + 60 // STEP))


def _stairs(field: _Field, points: Sequence[tuple[float, float]]) -> str:
    """A line that keeps its height until the next point, and to the end."""
    corners: list[tuple[float, float]] = []
    for at, value in points:
        if corners:
            corners.append((field.x(at), corners[-1][1]))
        corners.append((field.x(at), field.y(value)))
    corners.append((field.x(field.until), corners[-1][1]))
    return _line(corners)


def staircase_chart(steps: Sequence[Step], now: float) -> Chart | None:
    """A customer's count over time, with a bar of the priority it gave, and resets marked."""
    if not steps:
        return None
    lowest = min(-3, *(step.count for step in steps))
    field = _Field(min(steps[0].at, now - 60), now, -nice(-lowest), 0.5)
    line = Shape("count", _stairs(field, [(step.at, step.count) for step in steps]))
    resets = tuple(field.x(step.at) for step in steps if step.is_reset)
    bars = _priorities(field, steps)
    return Chart((*bars, line), field.values(), field.minutes(), lowest, resets)


def _priorities(field: _Field, steps: Sequence[Step]) -> list[Shape]:
    bottom = HEIGHT - BOTTOM
    ends = [field.x(step.at) for step in steps[1:]] + [field.x(field.until)]
    paths: defaultdict[int, str] = defaultdict(str)
    for step, end in zip(steps, ends, strict=True):
        start = field.x(step.at)
        bar = f"M{start:g} {bottom - 6}H{max(end, start + 0.5):g}V{bottom}H{start:g}Z"
        paths[min(step.priority, LEVELS)] += bar
    return [Shape(f"p{level}", path) for level, path in sorted(paths.items())]
