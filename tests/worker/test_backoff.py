"""Backoff and outages: how long is waited, what is raised in the end, and what the log says."""

from __future__ import annotations

import pytest

from fairlead.backoff import FIRST_SECONDS, LONGEST_SECONDS, Attempts, Backoff, Outage
from fairlead.errors import (
    DamagedData,
    DiskFull,
    FairleadError,
    StoreBusy,
    TemporarilyUnavailable,
    error_classes,
)

FULL = DiskFull("the disk is full; free some space")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_pauses_grow_and_begin_anew_after_a_success() -> None:
    clock = Clock()
    backoff, pauses = Backoff(random=lambda: 0.0, clock=clock), []
    for _ in range(8):
        pauses.append(backoff.failed())
        assert backoff.is_failing
        assert backoff.is_waiting()
        clock.now += backoff.pause
        assert not backoff.is_waiting()
    assert pauses == [min(LONGEST_SECONDS, FIRST_SECONDS * 2**number) for number in range(8)]
    backoff.succeeded()
    assert (backoff.pause, backoff.is_failing) == (0.0, False)
    assert backoff.failed() == FIRST_SECONDS


def test_jitter_shortens_a_pause_by_a_fifth_at_most() -> None:
    assert Backoff(10.0, 10.0, random=lambda: 1.0).failed() == pytest.approx(8.0)
    assert all(0.8 <= Backoff(1.0).failed() <= 1.0 for _ in range(100))


def test_a_thousand_failures_overflow_nothing() -> None:
    backoff = Backoff(1.0, 60.0, random=lambda: 0.0)
    assert [backoff.failed() for _ in range(2000)][-1] == 60.0


def test_temporary_failures_have_one_base_class() -> None:
    assert {error_class.code for error_class in error_classes(TemporarilyUnavailable)} == {
        *("not-now", "disk-full", "read-only-data", "store-busy", "store-unreachable"),
        "files-unreachable",
    }


def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage()
    first, second = Attempts(outage), Attempts(outage)
    for attempts, error in [(first, FULL), (second, StoreBusy("locked")), (first, FULL)]:
        with attempts:
            raise error
    assert outage.is_on
    first.succeeded()
    assert outage.is_on
    second.succeeded()
    assert not outage.is_on
    second.succeeded()
    began, ended = [record.getMessage() for record in caplog.records]
    assert "the disk is full; free some space" in began
    assert "continue" in ended


def test_other_errors_are_raised() -> None:
    outage = Outage()
    for error in (DamagedData("no"), FairleadError("no"), ValueError("no")):
        with pytest.raises(type(error)), Attempts(outage):
            raise error
    assert not outage.is_on


def test_an_outage_that_lasts_too_long_is_raised() -> None:
    clock = Clock()
    attempts = Attempts(Outage(30.0, clock))
    for second in range(30):
        clock.now = float(second)
        assert attempts.suppresses(FULL)
    clock.now = 30.0
    with pytest.raises(DiskFull), attempts:
        raise FULL
    attempts.succeeded()
    assert attempts.suppresses(FULL), "another outage has a time of its own"
    assert not Attempts(Outage(0.0)).suppresses(FULL)
