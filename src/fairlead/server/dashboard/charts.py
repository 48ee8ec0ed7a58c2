"""Charts as shapes: numbers in, coordinates out. Templates draw them as SVG. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.server.dashboard.last_hour import HOUR, LEVELS, STEP, Sample, Step

WIDTH, HEIGHT = 640, 180
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 22
"""Room around the field for the words of the axes."""
THIN = 2
"""Of many points, every so many are drawn, with the newest one."""
_NICE = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Mark:
    """A line of an axis: where it lies, and the value that it stands for."""

    at: float
    value: float


@dataclass(frozen=True)
class Shape:
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


@dataclass(frozen=True)
class _Field:
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
        size = nice((self.until - self.since) / 60 / 4)
        number = int((self.until - self.since) / 60 / size)
        return tuple(
            Mark(self.x(self.until - each * size * 60), each * size) for each in range(number + 1)
        )

    def values(self) -> tuple[Mark, ...]:
        size = max(1.0, nice((self.high - self.low) / 3))
        first, last = math.ceil(self.low / size), math.floor(self.high / size)
        return tuple(Mark(self.y(each * size), each * size) for each in range(first, last + 1))


def nice(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(each * power for each in _NICE if each * power >= value * 0.999)


def _line(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(points))


def pending_chart(samples: Sequence[Sample], now: float) -> Chart | None:
    points = [each for each in samples if each.at >= now - HOUR]
    points = points[(len(points) - 1) % THIN :: THIN] if len(points) > 40 * THIN else points
    if len(points) < 2:
        return None
    highest = max(1, *(sum(each.pending) for each in points))
    place = _Field(min(points[0].at, now - 60), now, 0, nice(highest))
    base = [0] * len(points)
    shapes = []
    for level in range(LEVELS):
        top = [low + each.pending[level] for low, each in zip(base, points, strict=True)]
        if top != base:
            upper = [(place.x(p.at), place.y(v)) for p, v in zip(points, top, strict=True)]
            lower = [(place.x(p.at), place.y(v)) for p, v in zip(points, base, strict=True)]
            shapes.append(Shape(f"p{level + 1}", _line(upper + lower[::-1]) + "Z"))
        base = top
    return Chart(tuple(shapes), place.values(), place.minutes(), highest)


def flow_chart(arrived: dict[int, int], ended: dict[int, int], now: float) -> Chart | None:
    if not (arrived or ended):
        return None
    last = int(now) // 60
    minutes = range(last - 59, last + 1)
    series = {
        "arrived": [_of_minute(arrived, each) for each in minutes],
        "ended": [_of_minute(ended, each) for each in minutes],
    }
    highest = max(1, *(max(values) for values in series.values()))
    place = _Field(minutes[0] * 60, now, 0, nice(highest))
    shapes = [
        Shape(
            name, _stairs(place, [(each * 60, v) for each, v in zip(minutes, values, strict=True)])
        )
        for name, values in series.items()
    ]
    return Chart(tuple(shapes), place.values(), place.minutes(), highest)


def _of_minute(numbers: dict[int, int], minute: int) -> int:
    first = minute * 60 // STEP
    return sum(numbers.get(step, 0) for step in range(first, first + 60 // STEP))


def _stairs(place: _Field, points: Sequence[tuple[float, float]]) -> str:
    """A line that keeps its height until the next point, and to the end."""
    corners: list[tuple[float, float]] = []
    for at, value in points:
        if corners:
            corners.append((place.x(at), corners[-1][1]))
        corners.append((place.x(at), place.y(value)))
    corners.append((place.x(place.until), corners[-1][1]))
    return _line(corners)


def staircase_chart(steps: Sequence[Step], now: float) -> Chart | None:
    """A customer's count over time, with a bar of the priority it gave, and resets marked."""
    if not steps:
        return None
    lowest = min(-3, *(each.count for each in steps))
    place = _Field(min(steps[0].at, now - 60), now, -nice(-lowest), 0.5)
    line = Shape("count", _stairs(place, [(each.at, each.count) for each in steps]))
    resets = tuple(place.x(each.at) for each in steps if each.is_reset)
    bars = _priorities(place, steps)
    return Chart((*bars, line), place.values(), place.minutes(), lowest, resets)


def _priorities(place: _Field, steps: Sequence[Step]) -> list[Shape]:
    bottom = HEIGHT - BOTTOM
    ends = [place.x(each.at) for each in steps[1:]] + [place.x(place.until)]
    by_level: dict[int, str] = {}
    for step, end in zip(steps, ends, strict=True):
        start = place.x(step.at)
        bar = f"M{start:g} {bottom - 6}H{max(end, start + 0.5):g}V{bottom}H{start:g}Z"
        by_level[min(step.priority, LEVELS)] = by_level.get(min(step.priority, LEVELS), "") + bar
    return [Shape(f"p{level}", path) for level, path in sorted(by_level.items())]
