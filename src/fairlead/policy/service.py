"""How long the documents of a queue really take, measured on the last claims.

A claim *holds* a place from its start to its end. Documents of a queue take `base` + `slope` times
their estimate; if estimates are poor, small ones are too small and large ones too large on average,
so the slope is flat. Without claims, estimates are taken as right.

A place is not always used the way the number of places says. Between two documents there is a
pause: the result is saved, the next document is claimed. And a step or a prefetch may hold more
documents than there are places, each for longer. Both are measured where documents waited.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from random import Random
from statistics import fmean
from typing import NamedTuple

MOST_HOLDS = 100
"""The last claims of a queue that count."""
_FADING = 0.98
_PRIOR_DOCUMENTS = 5
"""How many documents the prior, that seconds are proportional to estimates, counts for."""
_ENOUGH = 8.0
"""From so many documents on, only measured ones say how long they take on average."""
_PRIOR_RATIOS = (0.5, 0.75, 1.0, 1.25, 1.5)
_LONGEST_PAUSE = 1.0
"""A longer one is no pause between two documents: a cap or a quota held the next one back."""
_WAITED = 0.02
_LEAST_MEASURED = 5
_EPSILON = 1e-9


class Hold(NamedTuple):
    """A claim: when it began and ended, in seconds from now (negative); None: it still runs.

    `waited` is for how long its document had waited in its queue.
    """

    queue: str
    estimate: float
    began: float
    ended: float | None
    waited: float = 0.0
    customer: int = 0


class MeasuredService:
    """The seconds of the documents of one queue."""

    def __init__(self, base: float, slope: float, ratios: Sequence[float]) -> None:
        self._base, self._slope = base, slope
        mean = fmean(ratios)
        self._ratios = [ratio / mean for ratio in ratios] if mean > _EPSILON else [1.0]
        self._deviation = fmean((ratio - 1.0) ** 2 for ratio in self._ratios) ** 0.5

    def seconds(self, estimate: float, documents: float = 1.0) -> float:
        """The seconds that documents take whose estimates add up to `estimate`."""
        return max(0.0, documents * self._base + self._slope * estimate)

    def level(self, random: Random) -> float:
        """A factor for all documents: the mean of few documents is not known exactly."""
        return max(0.2, random.gauss(1.0, self._deviation / len(self._ratios) ** 0.5))

    def ratio(self, random: Random, documents: float = 1.0) -> float:
        """A factor for one document, or for the sum of several, as it was with earlier ones."""
        ratio = random.choice(self._ratios)
        return ratio if documents <= 1.0 else max(0.0, 1.0 + (ratio - 1.0) / documents**0.5)

    def remaining(self, estimate: float, elapsed: float, random: Random) -> float:
        """The seconds left of a document that runs, as of earlier ones that took longer."""
        whole = self.seconds(estimate)
        longer = [whole * ratio for ratio in self._ratios if whole * ratio > elapsed]
        return random.choice(longer) - elapsed if longer else elapsed * random.random()


def measured(holds: Iterable[Hold], usual: float) -> MeasuredService:
    """What the last claims took; `usual` is an estimate where there are none.

    `holds` come newest first; later ones count more.
    """
    ended = [(hold.estimate, hold.ended - hold.began) for hold in holds if hold.ended is not None]
    ended = ended[:MOST_HOLDS]
    weights = [_FADING**age for age in range(len(ended))]
    total = sum(weights)
    mean = usual
    if ended:
        pairs = list(zip(weights, ended, strict=True))
        usual = sum(weight * estimate for weight, (estimate, _) in pairs) / total
        mean = _mean(usual, sum(weight * seconds for weight, (_, seconds) in pairs) / total, total)
    squares = products = 0.0
    for weight, (estimate, seconds) in zip(weights, ended, strict=True):
        squares += weight * (estimate - usual) ** 2
        products += weight * (estimate - usual) * (seconds - mean)
    prior, proportional = _PRIOR_DOCUMENTS * usual**2, mean / usual if usual > _EPSILON else 1.0
    slope = max(0.0, (products + prior * proportional) / max(_EPSILON, squares + prior))
    base = mean - slope * usual
    expected = [max(_EPSILON, base + slope * estimate) for estimate, _ in ended]
    ratios = [seconds / due for due, (_, seconds) in zip(expected, ended, strict=True)]
    few = _PRIOR_RATIOS if len(ratios) < _ENOUGH else ()
    return MeasuredService(base, slope, [*ratios, *few] or [1.0])


def _mean(usual: float, measured: float, documents: float) -> float:
    """The mean seconds: those of the estimates at first, then more and more those measured."""
    if usual <= _EPSILON or measured <= _EPSILON:
        return measured
    return float(usual * (measured / usual) ** min(1.0, documents / _ENOUGH))


def held_at_once(holds: Sequence[Hold], queues: Collection[str], places: int) -> float:
    """How many documents of these queues are held at once while others wait; `places` at least.

    The mean over the time between two claims, if the document of the second one had waited that
    long. Times in which hardly any was held do not count: a cap or a pause held them back.
    """
    own = [hold for hold in holds if hold.queue in queues]
    began, ended = (
        _Times(hold.began for hold in own),
        _Times(hold.ended for hold in own if hold.ended is not None),
    )
    held = seconds = 0.0
    for before, hold in pairwise(sorted(own, key=attrgetter("began"))):
        passed = hold.began - before.began
        if passed <= 0 or hold.waited < passed:
            continue
        work = sum(
            sign * (times.since(hold.began) - times.since(before.began))
            for sign, times in ((1.0, began), (-1.0, ended))
        )
        if 2 * work > passed:
            held, seconds = held + work, seconds + passed
    return max(float(places), held / seconds) if seconds > 0 else float(places)


class _Times:
    """Times, and how many seconds have passed since all of them together."""

    def __init__(self, times: Iterable[float]) -> None:
        self._times = sorted(times)
        self._sums = list(accumulate(self._times, initial=0.0))

    def since(self, now: float) -> float:
        number = bisect_right(self._times, now)
        return number * now - self._sums[number]


def pause(holds: Sequence[Hold], queues: Collection[str], places: int) -> float:
    """The seconds between the end of a document and the start of the next one that waits."""
    own = [hold for hold in holds if hold.queue in queues]
    ended = sorted(hold.ended for hold in own if hold.ended is not None)
    pauses = []
    for begun, hold in enumerate(sorted(own, key=attrgetter("began"))):
        before = bisect_right(ended, hold.began)
        passed = hold.began - ended[before - 1] if before else 0.0
        if hold.waited > _WAITED and passed <= _LONGEST_PAUSE:
            pauses.append(passed if begun - before < places else 0.0)
    return fmean(pauses) if len(pauses) >= _LEAST_MEASURED else 0.0
