"""Real workers with own steps: forecasts are asked for while they work, and compared afterwards.

Steps take tens of milliseconds, so that a scenario takes less than a minute.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench.forecast.scenarios import Outcome, outcome
from fairlead import Fairlead, Job, step
from fairlead.errors import UnknownDocument
from fairlead.model.states import State

WHALE = "Harbour"
ASK_SECONDS = 0.2
ASKED = 4
"""Documents whose start is forecast, each time."""
LEAST_WAIT = 0.2
"""A document that starts sooner did not have to wait; `why` says that it starts immediately."""
Starts = dict[str, float]


def _work(job: Job) -> None:
    time.sleep(job.json()["seconds"])


@step(concurrency=1)
def narrow(job: Job) -> None:
    _work(job)


@step(concurrency=4)
def wide(job: Job) -> None:
    _work(job)


class Change(NamedTuple):
    """What an operator does to the whale, so many seconds after the start."""

    at: float
    verb: str


class RealScenario(NamedTuple):
    """Pipelines, the backlog of one customer by pipeline, and what the operator does."""

    pipelines: Mapping[str, Mapping[str, Any]]
    backlog: Mapping[str, int]
    seconds: float = 0.05
    cap: int | None = None
    changes: Sequence[Change] = ()
    others: str = "default"
    policy: str = "classic"


_NARROW = {"steps": [narrow]}
_WIDE = {"steps": [wide]}
REAL: dict[str, RealScenario] = {
    "own step, 4 at once": RealScenario({"own": _WIDE}, {"own": 1600}, others="own"),
    "step of concurrency 1": RealScenario(
        {"own": _NARROW, "other": _WIDE}, {"own": 250}, others="other"
    ),
    "two steps of two speeds": RealScenario(
        {"own": _NARROW, "other": _WIDE}, {"own": 150, "other": 400}, others="other"
    ),
    "read and a step": RealScenario(
        {"own": {"steps": ["read", narrow]}}, {"own": 200}, others="own"
    ),
    "cap 1": RealScenario({"own": _WIDE}, {"own": 200}, cap=1, others="own"),
    "max_running 2": RealScenario({"own": _WIDE | {"max_running": 2}}, {"own": 300}, others="own"),
    "10 starts a second": RealScenario(
        {"own": _WIDE | {"limit": "10/s"}}, {"own": 150}, others="own"
    ),
    "pause and resume": RealScenario(
        {"own": _NARROW},
        {"own": 200},
        changes=(Change(3.0, "pause"), Change(7.0, "resume")),
        others="own",
    ),
    "own step, fair": RealScenario({"own": _WIDE}, {"own": 1600}, others="own", policy="fair"),
}


class Asked(NamedTuple):
    """A forecast: of which document, when, and its range."""

    document: str
    now: float
    low: float
    high: float


def real_outcome(scenario: RealScenario, seed: int) -> Outcome:
    """Run the scenario, and compare the starts with the forecasts."""
    settings = {"pipelines": scenario.pipelines, "policy": scenario.policy}
    with (
        tempfile.TemporaryDirectory() as folder,
        Fairlead(Path(folder), settings=settings) as fairlead,
    ):
        asked = _Run(fairlead, scenario, random.Random(seed)).asked()
        starts = {
            document.id: document.started_at or 0.0
            for document in fairlead.documents(state=State.DONE, limit=1000)
        }
    return outcome(
        [
            (one.low - one.now, one.high - one.now, wait)
            for one in asked
            if one.document in starts and (wait := starts[one.document] - one.now) > LEAST_WAIT
        ]
    )


class _Run:
    """One run: the engine in a thread, the traffic and the questions in this one."""

    def __init__(self, fairlead: Fairlead, scenario: RealScenario, chance: random.Random) -> None:
        self._fairlead, self._scenario, self._chance = fairlead, scenario, chance

    def asked(self) -> list[Asked]:
        self._submit_backlog()
        engine = self._fairlead.services.engine(2)
        thread = threading.Thread(target=engine.run)
        thread.start()
        try:
            return self._ask_until_done()
        finally:
            engine.stop()
            thread.join()

    def _submit_backlog(self) -> None:
        customers = self._fairlead.customers
        customers.add(WHALE, processing_cap=self._scenario.cap)
        for pipeline, number in self._scenario.backlog.items():
            documents = [self._document() for _ in range(number)]
            self._fairlead.submit_many(WHALE, documents, pipeline=pipeline)

    def _document(self) -> dict[str, float]:
        return {"seconds": self._scenario.seconds * self._chance.lognormvariate(-0.18, 0.6)}

    def _ask_until_done(self) -> list[Asked]:
        asked: list[Asked] = []
        changes = list(self._scenario.changes)
        began = time.monotonic()
        while any(self._fairlead.queue.totals()[:2]):
            if changes and time.monotonic() - began >= changes[0].at:
                verb = changes.pop(0).verb
                getattr(self._fairlead.customers, verb)(WHALE)
                # Nobody can know of a later pause: what was told before it does not count.
                asked = [] if verb == "pause" else asked
            if self._chance.random() < 0.15:
                small = f"small {self._chance.randrange(5)}"
                pipeline = self._scenario.others
                self._fairlead.submit(small, self._document(), pipeline=pipeline)
            asked += self._ask()
            time.sleep(ASK_SECONDS)
        return asked

    def _ask(self) -> list[Asked]:
        waiting = self._fairlead.documents(state=State.WAITING, limit=1000).items
        chosen = self._chance.sample(waiting, min(ASKED, len(waiting)))
        asked = []
        for document in chosen:
            with suppress(UnknownDocument):
                now = self._fairlead.store.now()
                forecast = self._fairlead.why(document.id).forecast
                if forecast is not None:
                    asked.append(Asked(document.id, now, forecast.low, forecast.high))
        return asked
