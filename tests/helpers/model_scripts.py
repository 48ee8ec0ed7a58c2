"""Random scripts for the queue model and the queues with its interface, and their results."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from queue_model import PipelineSettings, QueueModel, QueueSettings

NAMES = ("a", "b", "c", "d", "e")
SHARED = "shared"
OTHERS = ("pause", "resume", "cap", "weight", "account", "reset", "cancel")


class Step(NamedTuple):
    """One thing that happens at `now`; `pick` decides between equals, such as what runs."""

    now: float
    kind: str
    name: str
    pick: int
    value: Any = None


class Script(NamedTuple):
    """Settings and steps. In half of them customers share an account, which "a" never leaves."""

    settings: QueueSettings
    steps: list[Step]


def script_by_lot(seed: int, policy: str, length: int = 120) -> Script:
    lot = random.Random(f"{policy} {seed}")
    settings = QueueSettings(
        policy=policy,
        unit=6.0,
        allowance=lot.choice([1.0, 3.0, 42.0]),
        interval=lot.choice([10.0, 30.0, 1500.0]),
        overdue_after=lot.choice([None, 3.0, 15.0]),
        share=lot.choice([0, 2, 2, 4]),
        pipelines=lot.choice(
            [
                {},
                {"slow": PipelineSettings(max_running=1)},
                {"slow": PipelineSettings(max_running=2, limit=0.5)},
            ]
        ),
    )
    has_account = lot.random() < 0.5
    now, steps = 0.0, list[Step]()
    if has_account:
        steps.append(Step(now, "account", "a", 0, SHARED))
    for _ in range(length):
        now += lot.choice([0.0, 0.0, 1.0, 3.0, 8.0])
        kind = lot.choice(["submit"] * 10 + ["claim"] * 8 + ["end"] * 6 + list(OTHERS))
        name = lot.choice(NAMES)
        if has_account and kind == "weight":
            name = SHARED
        if kind == "account" and (name == "a" or not has_account):
            continue
        steps.append(Step(now, kind, name, lot.randrange(1000), _value(lot, kind)))
    steps += [Step(now + 60.0 * turn, "drain", "a", 0) for turn in range(1, 12)]
    return Script(settings, steps)


def _value(lot: random.Random, kind: str) -> Any:
    values = {
        "submit": (lot.choice([0.0, 1.0, 6.0, 20.0]), lot.random() < 0.2, lot.random() < 0.3),
        "claim": lot.choice([None, None, None, ["default"], ["slow"], ["default", "slow"]]),
        "end": (lot.choice(["finish"] * 3 + ["lose", "fail"]), lot.choice([0.0, 0.5, 6.0, 30.0])),
        "cap": lot.choice([None, 1, 2]),
        "weight": lot.choice([0.5, 1.0, 3.0]),
        "account": lot.choice([None, SHARED, SHARED]),
    }
    return values.get(kind)


def play(queue: Any, script: Script) -> list[Any]:
    """Counts of submissions and starts of claims, in order."""
    player = _Player(queue)
    for step in script.steps:
        getattr(player, step.kind, player.set)(step)
    return player.shown


class _Player:
    def __init__(self, queue: Any) -> None:
        self.shown: list[Any] = []
        self._queue = queue
        self._running: list[int] = []
        self._documents = 0

    def submit(self, step: Step) -> None:
        estimate, urgent, is_slow = step.value
        pipeline = "slow" if is_slow else "default"
        self._documents += 1
        _, *checked = self._queue.submit(
            step.name, now=step.now, estimate=estimate, urgent=urgent, pipeline=pipeline
        )
        self.shown.append(("submitted", *checked))

    def claim(self, step: Step) -> None:
        self._queue.due(step.now)
        self._claim(step.now, step.value)

    def _claim(self, now: float, pipelines: list[str] | None = None) -> bool:
        start = self._queue.claim(now, pipelines)
        if start is None:
            self.shown.append("nothing")
            return False
        self._running.append(start.document)
        charge = (round(start.charge, 6), start.charged)
        self.shown.append((start.document, start.customer, start.lane, *charge))
        return True

    def end(self, step: Step) -> None:
        if self._running:
            how, actual = step.value
            document = self._running.pop(step.pick % len(self._running))
            if how == "finish":
                self._queue.finish(document, step.now, actual)
            elif how == "lose":
                self._queue.lose(document, step.now)
            else:
                self._queue.fail_attempt(document, step.now, actual, step.now + 5.0)

    def cancel(self, step: Step) -> None:
        if self._documents:
            document = step.pick % self._documents
            self._queue.cancel(document, step.now, 1.0)
            self._running = [other for other in self._running if other != document]

    def drain(self, step: Step) -> None:
        """End all that runs, and claim until nothing may start."""
        for document in self._running:
            self._queue.finish(document, step.now, 3.0)
        self._running = []
        self._queue.due(step.now)
        while self._claim(step.now):
            pass

    def set(self, step: Step) -> None:
        match step.kind:
            case "cap":
                self._queue.set_cap(step.name, step.value, step.now)
            case "weight":
                self._queue.set_weight(step.name, step.value, step.now)
            case "account":
                self._queue.set_account(step.name, step.value, step.now)
            case _:
                getattr(self._queue, step.kind)(step.name, step.now)


def expected(script: Script) -> list[Any]:
    """What the model shows."""
    return play(QueueModel(script.settings), script)
