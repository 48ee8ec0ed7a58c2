"""An outage: who bears it, for how long, and what the log says."""

from __future__ import annotations

import pytest

from fairlead.errors import DiskFull, FairleadError, ReadOnlyData, StoreBusy, TemporarilyUnavailable
from fairlead.i18n.texts import errors
from fairlead.worker.outage import FIRST_PAUSE, LONGEST_PAUSE, Outage, Tries

FULL = DiskFull("the disk is full; free some space")


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock of one number."""
    now = [0.0]
    monkeypatch.setattr("fairlead.worker.outage.time.monotonic", lambda: now[0])
    return now


def test_what_passes_by_itself_has_one_name() -> None:
    assert {each.code for each in errors(TemporarilyUnavailable)} == {
        *("not-now", "disk-full", "store-busy", "store-unreachable", "files-unreachable")
    }


def test_it_is_told_once_when_it_begins_and_once_when_all_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    both = Outage()
    first, second = Tries(both), Tries(both)
    for tries, error in [(first, FULL), (second, StoreBusy("locked")), (first, FULL)]:
        with tries:
            raise error
    assert both.is_on
    first.over()
    assert both.is_on
    second.over()
    assert not both.is_on
    second.over()
    began, ended = [record.getMessage() for record in caplog.records]
    assert "the disk is full; free some space" in began
    assert "goes on" in ended


def test_pauses_grow_and_begin_anew(seconds: list[float]) -> None:
    tries, pauses = Tries(Outage()), []
    for _ in range(8):
        assert tries.bear(FULL)
        assert tries.is_resting()
        pauses.append(tries.pause)
        seconds[0] += tries.pause
        assert not tries.is_resting()
    assert pauses == [min(LONGEST_PAUSE, FIRST_PAUSE * 2**number) for number in range(8)]
    tries.over()
    assert tries.bear(FULL)
    assert tries.pause == FIRST_PAUSE


def test_what_does_not_pass_is_raised() -> None:
    both = Outage()
    for error in (ReadOnlyData("no"), FairleadError("no"), ValueError("no")):
        with pytest.raises(type(error)), Tries(both):
            raise error
    assert not both.is_on


def test_who_has_to_end_bears_it_for_so_long_only(seconds: list[float]) -> None:
    tries = Tries(Outage(patience=30.0))
    for second in range(30):
        seconds[0] = float(second)
        assert tries.bear(FULL)
    seconds[0] = 30.0
    with pytest.raises(DiskFull), tries:
        raise FULL
    tries.over()
    assert tries.bear(FULL), "another outage has a time of its own"
    assert not Tries(Outage(patience=0.0)).bear(FULL)
