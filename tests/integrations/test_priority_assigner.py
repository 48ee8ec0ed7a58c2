"""A ledger that is down: tasks go on with the fallback, and it is said once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import servers
from celerykit import Kit
from ledgerkit import PATIENT

from fairlead.integrations.counters import CustomerRules, Placement, PriorityAssigner, open_counters

KitFactory = Callable[..., Kit]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_one_warning_then_a_pause_that_grows_then_it_counts_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    with servers.redis() as server:
        counters = open_counters(server.url, timeout=PATIENT)
        assigner = PriorityAssigner(counters, CustomerRules(), 4, clock=clock)
        assigner._outage._backoff._random = lambda: 0.0
        assert assigner.place("acme") == Placement(1, 0)
        server.stop()
        for _ in range(5):
            assert assigner.place("acme") == Placement(4, None)
        (said,) = warnings(caplog)
        assert "cannot be reached: Redis: " in said
        assert "Connection refused. Until it answers, tasks are sent with priority 4" in said
        server.start()
        clock.now = 0.9
        assert assigner.place("acme") == Placement(4, None), "it is not asked at every task"
        clock.now = 1.0
        assert assigner.place("acme") == Placement(1, 0), "a Redis without disk has forgotten"
        assert assigner.place("acme") == Placement(1, -1)
        assert len(warnings(caplog)) == 2
        assert "answers again" in warnings(caplog)[1]
        server.stop()
        for moment, asked_again in [(2.0, 3.0), (2.9, 3.0), (3.0, 5.0), (5.0, 9.0)]:
            clock.now = moment
            assert assigner.place("acme") == Placement(4, None)
            assert assigner._outage._backoff._until == asked_again
        clock.now = 1e6
        for _ in range(9):
            assigner.place("acme")
            clock.now += 30
        assert assigner._outage._backoff._until == clock.now, "never longer than thirty"
        assert len(warnings(caplog)) == 3
        assigner.close()


def test_tasks_are_sent_while_the_ledger_is_down(
    make_kit: KitFactory, caplog: pytest.LogCaptureFixture
) -> None:
    with servers.redis() as server:
        kit = make_kit(counters=server.url, fallback=7)
        kit.work.apply_async(["before"], customer="acme")
        server.stop()
        for place in range(3):
            kit.work.apply_async([f"down {place}"], customer="acme")
        found = {each.args[0]: each.told for each in kit.received()}
        down = {"customer": "acme", "priority": 7, "count": None}
        assert found.pop("before") == {"customer": "acme", "priority": 1, "count": 0}
        assert list(found.values()) == [down] * 3
        assert len([each for each in warnings(caplog) if "cannot be reached" in each]) == 1
