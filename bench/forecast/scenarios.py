"""Traffic and sites for the forecast in virtual time, and how good its ranges are."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.forecast.virtual import Forecaster, Pause, Sent, Site
from fairlead.model.pipelines import DEFAULT_PIPELINE
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.fair import FairRule

TRACES = Path(__file__).parent.with_name("traces")
POLICIES: dict[str, ClassicPolicy | FairRule] = {"classic": ClassicPolicy(), "fair": FairRule()}
TUNED_ON = (7, 101, 202)
"""The constants of the forecast were fitted on the traffic of these seeds."""
HELD_OUT = (303, 404, 505)
"""Who changes a constant to please these seeds must choose new ones."""
STEP = "invoices"
_SIZES = (1, 1, 2, 3, 5, 20)
_MEAN = 6.0


class Outcome(NamedTuple):
    """Forecasts of a run whose documents had to wait, and how their starts compare."""

    number: int
    hits: float
    below: float
    above: float
    width: float  # median of the range over the wait


class Run(NamedTuple):
    """The documents of a run, and the site that processes them.

    Starts are forecast until `asked_until`: the traffic must go on while their documents wait.
    """

    rows: list[Sent]
    site: Site
    asked_until: float = math.inf


def traffic(
    seed: int,
    *,
    load: float,
    workers: int,
    noise: float,
    hours: float = 1.5,
    queues: Sequence[str] = (DEFAULT_PIPELINE,),
) -> list[Sent]:
    """Customers of all sizes that send bursts, and estimates that are off by `noise`."""
    chance = random.Random(seed)
    rows: list[Sent] = []
    mean_burst = sum(_SIZES) / len(_SIZES)
    at = 0.0
    while at < hours * 3600:
        at += chance.expovariate(load * workers / (_MEAN * mean_burst))
        customer = int(chance.paretovariate(0.7)) % 15
        queue = chance.choice(queues)
        for _ in range(chance.choice(_SIZES)):
            seconds = _MEAN * chance.lognormvariate(-0.32, 0.8)
            off = chance.lognormvariate(-noise * noise / 2, noise)
            rows.append(Sent(at, customer, seconds, seconds * off, queue))
    return rows


def _whale(seed: int, documents: int, at: float, queue: str = DEFAULT_PIPELINE) -> list[Sent]:
    """Many documents of one customer at once, whose estimates say little."""
    chance = random.Random(seed)
    times = [_MEAN * chance.lognormvariate(-0.32, 0.8) for _ in range(documents)]
    return [Sent(at, 20, seconds, _MEAN, queue) for seconds in times]


def _plain(seed: int) -> Run:
    return Run(traffic(seed, load=0.9, workers=4, noise=0.5, hours=2.0), Site(4), 3600.0)


def _busy(seed: int) -> Run:
    return Run(traffic(seed, load=1.2, workers=2, noise=0.8, hours=2.0), Site(2), 3600.0)


def _narrow_step(seed: int) -> Run:
    """A step of concurrency 1 in one of two queues, which gets a whale."""
    rows = traffic(seed, load=0.5, workers=4, noise=0.5, hours=1.0)
    return Run(_merged(rows, _whale(seed, 200, 300.0, STEP)), Site(4, {STEP: 1}))


def _narrow_busy(seed: int) -> Run:
    """The same step with traffic of its own, near its capacity."""
    rows = traffic(seed, load=0.4, workers=4, noise=0.5, hours=1.0)
    own = traffic(seed + 1, load=0.8, workers=1, noise=0.5, hours=1.0, queues=(STEP,))
    return Run(_merged(rows, own), Site(4, {STEP: 1}))


def _capped(seed: int) -> Run:
    """A whale with a cap of 1 beside other traffic."""
    rows = traffic(seed, load=0.6, workers=4, noise=0.5, hours=1.0)
    return Run(_merged(rows, _whale(seed, 150, 300.0)), Site(4, caps={20: 1}))


def _max_running(seed: int) -> Run:
    rows = traffic(seed, load=0.5, workers=4, noise=0.5, hours=1.0)
    return Run(_merged(rows, _whale(seed, 250, 300.0, STEP)), Site(4, quotas={STEP: (None, 2)}))


def _rate(seed: int) -> Run:
    rows = traffic(seed, load=0.5, workers=4, noise=0.5, hours=1.0)
    return Run(_merged(rows, _whale(seed, 150, 300.0, STEP)), Site(4, quotas={STEP: (0.1, None)}))


def _resumed(seed: int) -> Run:
    """A customer with a backlog is paused, and resumed."""
    rows = traffic(seed, load=0.7, workers=2, noise=0.5, hours=1.0)
    pauses = [Pause(500.0, 20, is_paused=True), Pause(1100.0, 20, is_paused=False)]
    return Run(_merged(rows, _whale(seed, 100, 300.0)), Site(2, pauses=pauses))


def _two_speeds(seed: int) -> Run:
    """Two queues share the workers; one takes a tenth of what is estimated."""
    rows = traffic(seed, load=0.45, workers=4, noise=0.3, hours=1.0)
    fast = traffic(seed + 1, load=3.0, workers=4, noise=0.3, hours=1.0, queues=(STEP,))
    fast = [row._replace(seconds=row.seconds / 10) for row in fast]
    return Run(_merged(rows, fast), Site(4))


SCENARIOS: dict[str, Callable[[int], Run]] = {
    "load 0.9, 4 workers": _plain,
    "load 1.2, 2 workers": _busy,
    "step of concurrency 1, backlog": _narrow_step,
    "step of concurrency 1, busy": _narrow_busy,
    "cap 1, backlog": _capped,
    "max_running 2, backlog": _max_running,
    "6 starts a minute, backlog": _rate,
    "pause and resume": _resumed,
    "two queues, one ten times faster": _two_speeds,
}


def _merged(*several: Iterable[Sent]) -> list[Sent]:
    return sorted((row for rows in several for row in rows), key=lambda row: row.at)


def judged(policy: ClassicPolicy | FairRule, run: Run, seed: int, often: float = 0.3) -> Outcome:
    """How the starts compare with their forecasts, where the document had to wait."""
    forecaster = Forecaster(policy, run.site, random.Random(seed), often)
    forecaster.run(run.rows, run.asked_until)
    pairs = [
        (made.forecast, wait)
        for made in forecaster.forecasts
        if (wait := forecaster.started[made.document] - made.now) > 0
        and not _was_paused(forecaster.sent[made.document], made.now, run.site.pauses)
    ]
    return outcome([(low, high, wait) for (_, low, high), wait in pairs])


def _was_paused(sent: Sent, now: float, pauses: Sequence[Pause]) -> bool:
    """Whether its customer was paused after the forecast, which nobody can know."""
    return any(
        pause.is_paused and pause.customer == sent.customer and pause.at > now for pause in pauses
    )


def outcome(pairs: Sequence[tuple[float, float, float]]) -> Outcome:
    """Of ranges and what happened."""
    number = len(pairs) or 1
    below = sum(wait < low for low, _, wait in pairs) / number
    above = sum(wait > high for _, high, wait in pairs) / number
    widths = sorted((high - low) / wait for low, high, wait in pairs) or [math.nan]
    return Outcome(len(pairs), 1 - below - above, below, above, widths[len(widths) // 2])


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Several outcomes as one; the width is that of the middle one."""
    several = [one for one in outcomes if one.number]
    number = sum(one.number for one in several) or 1

    def share(name: str) -> float:
        return float(sum(getattr(one, name) * one.number for one in several) / number)

    widths = sorted(one.width for one in several) or [math.nan]
    shares = (share("hits"), share("below"), share("above"))
    return Outcome(number, *shares, widths[len(widths) // 2])


def recorded(path: Path) -> Run:
    """The documents of a trace, and its number of workers, with which its name ends."""
    with path.open(newline="") as file:
        rows = [
            Sent(
                float(row["at"]),
                int(row["customer"]),
                float(row["seconds"]),
                float(row["estimate"]),
            )
            for row in csv.DictReader(file)
        ]
    return Run(rows, Site(int(path.stem.rpartition("-")[2])))


def judged_traces(policy: str) -> dict[str, Outcome]:
    """The quality of the forecasts of each recorded trace."""
    return {
        path.stem: judged(POLICIES[policy], recorded(path), seed=7, often=0.08)
        for path in sorted(TRACES.glob("*.csv"))
    }
