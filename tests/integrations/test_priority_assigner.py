"""While the counter store is down, tasks are sent with the fallback, and one warning is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import servers
from celerykit import Kit
from counterkit import PATIENT

from fairlead.backoff import Backoff
from fairlead.integrations.priority_assigner import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    AssignedPriority,
    PriorityAssigner,
)

KitFactory = Callable[..., Kit]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_one_warning_then_a_pause_that_grows_then_it_counts_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    with servers.redis() as server:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, random=lambda: 0.0, clock=clock)
        assigner = PriorityAssigner(server.url, fallback=4, timeout=PATIENT, backoff=backoff)
        assert assigner.place("acme") == AssignedPriority("acme", 1, 0)
        server.stop()
        for _ in range(5):
            assert assigner.place("acme") == AssignedPriority("acme", 4, None)
        (warning,) = warnings(caplog)
        assert "cannot be reached: Redis: " in warning
        assert "Connection refused. Until it answers, tasks are sent with priority 4" in warning
        server.start()
        clock.now = 0.9
        assert assigner.place("acme") == AssignedPriority("acme", 4, None), (
            "it is not asked at every task"
        )
        clock.now = 1.0
        assert assigner.place("acme") == AssignedPriority("acme", 1, 0), (
            "a Redis without disk has forgotten"
        )
        assert assigner.place("acme") == AssignedPriority("acme", 1, -1)
        assert len(warnings(caplog)) == 2
        assert "answers again" in warnings(caplog)[1]
        server.stop()
        for now, pause in [(2.0, 1.0), (2.9, 1.0), (3.0, 2.0), (5.0, 4.0)]:
            clock.now = now
            assert assigner.place("acme") == AssignedPriority("acme", 4, None)
            assert backoff.pause == pause
        clock.now = 1e6
        for _ in range(9):
            assigner.place("acme")
            clock.now += 30
        assert backoff.pause == 30
        assert len(warnings(caplog)) == 3
        assigner.close()


@pytest.mark.parametrize(
    "broker_url", ["redis", pytest.param("rabbitmq", marks=pytest.mark.full)], indirect=True
)
def test_tasks_are_sent_while_the_counter_store_is_down(
    make_kit: KitFactory, caplog: pytest.LogCaptureFixture
) -> None:
    with servers.redis() as server:
        kit = make_kit(counters=server.url, fallback=7)
        kit.work.apply_async(["before"], customer="acme")
        server.stop()
        for place in range(3):
            kit.work.apply_async([f"down {place}"], customer="acme")
        headers = {message.args[0]: message.header for message in kit.received()}
        down = {"customer": "acme", "priority": 7, "count": None}
        assert headers.pop("before") == {"customer": "acme", "priority": 1, "count": 0}
        assert list(headers.values()) == [down] * 3
        assert len([text for text in warnings(caplog) if "cannot be reached" in text]) == 1
