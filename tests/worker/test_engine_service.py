"""The engine of a server: one that fails is replaced, and the process goes on."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any, cast

import pytest

from fairlead.backoff import Backoff
from fairlead.errors import NoSandbox
from fairlead.worker import engine_service
from fairlead.worker.engine_service import EngineService

PATIENCE = 30.0


class FakeEngine:
    def __init__(self, error: Exception | None = None) -> None:
        self.is_held_up = False
        self.stops = 0
        self.on_tick: Callable[[], None] = lambda: None
        self.runs = Event()
        self._error = error
        self._stopped = Event()

    def run(self) -> None:
        self.runs.set()
        if self._error is not None:
            raise self._error
        assert self._stopped.wait(PATIENCE)

    def stop(self) -> None:
        self.stops += 1
        self._stopped.set()


def service_of(*engines: FakeEngine) -> EngineService:
    left = list(engines)

    def make(*, on_tick: Callable[[], None]) -> FakeEngine:
        left[0].on_tick = on_tick
        return left.pop(0)

    service = EngineService(cast("Any", make))
    service._backoff = Backoff(0.0, 0.0)
    return service


def test_an_engine_that_fails_is_replaced(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, good = FakeEngine(NoSandbox("this machine lacks Landlock")), FakeEngine()
    service = service_of(broken, good)
    service.start()
    assert good.runs.wait(PATIENCE)
    good.on_tick()
    assert not service.is_ready, "it has not proven yet that it works"
    monkeypatch.setattr(engine_service, "PROVEN_SECONDS", 0.0)
    good.on_tick()
    assert service.is_ready
    service.stop()
    assert (broken.stops, good.stops) == (0, 1)
    assert "this machine lacks Landlock" in caplog.text


def test_a_running_engine_is_ready_unless_it_is_held_up() -> None:
    engine = FakeEngine()
    service = service_of(engine)
    assert not service.is_ready
    service.start()
    assert engine.runs.wait(PATIENCE)
    assert service.is_ready
    engine.is_held_up = True
    assert not service.is_ready
    service.stop()
    assert not service.is_ready


def test_a_second_request_reaches_the_engine_too() -> None:
    engine = FakeEngine()
    service = service_of(engine)
    service.start()
    assert engine.runs.wait(PATIENCE)
    service.request_stop()
    service.request_stop()
    service.join(PATIENCE)
    assert engine.stops == 2
