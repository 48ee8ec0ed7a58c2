"""Background services: what a duty does never ends the process, and each can be stopped."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from queue import Queue
from threading import Event

import pytest

from fairlead.backoff import Backoff
from fairlead.errors import StoreBusy
from fairlead.service import Service, WakePipe, run_in_thread, running

LONG = 3600.0
PATIENCE = 30.0


def quick() -> Backoff:
    return Backoff(0.0, 0.0)


def test_a_failed_duty_is_logged_once_and_retried_until_it_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors, works = [OSError("first"), OSError("second"), MemoryError()], Event()

    def duty() -> Generator[float, None, None]:
        if errors:
            raise errors.pop(0)
        yield 0.0
        works.set()
        yield LONG

    service = Service("sorter", duty, backoff=quick())
    service.start()
    assert works.wait(PATIENCE)
    assert service.health() == ("sorter", True, None)
    service.stop()
    assert not service.health().is_running
    failed, works_again = caplog.records
    assert "sorter failed and is retried: first" in failed.getMessage()
    assert failed.exc_info
    assert "sorter works again" in works_again.getMessage()


def test_a_failed_duty_that_is_stopped_does_not_count_as_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = [StoreBusy("locked")]

    def duty() -> Generator[float, None, None]:
        if errors:
            raise errors.pop()
        service.request_stop()
        yield 0.0

    service = Service("engine", duty, backoff=quick())
    service.start()
    service.join(PATIENCE)
    assert [record.getMessage() for record in caplog.records] == [
        "fairlead: engine failed and is retried: locked"
    ]


def test_an_error_of_ours_is_logged_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    retried = Event()

    def duty() -> Generator[float, None, None]:
        if service.health().error is not None:
            retried.set()
        raise StoreBusy("locked")
        yield

    service = Service("sorter", duty, backoff=quick())
    service.start()
    assert retried.wait(PATIENCE)
    service.stop()
    (record,) = caplog.records
    assert "locked" in record.getMessage()
    assert not record.exc_info


def test_it_waits_until_it_is_woken() -> None:
    rounds: Queue[int] = Queue()

    def duty() -> Generator[float, None, None]:
        for number in range(3):
            rounds.put(number)
            yield LONG

    service = Service("sorter", duty)
    service.start()
    for number in range(3):
        assert rounds.get(timeout=PATIENCE) == number
        service.wake()
    service.join(PATIENCE)
    assert not service.health().is_running, "a duty that returns ends its service"


def test_a_stopped_duty_releases_what_it_holds() -> None:
    work_began, released = Event(), Event()

    def duty() -> Generator[float, None, None]:
        try:
            work_began.set()
            yield LONG
        finally:
            released.set()

    with running(Service("sorter", duty)):
        assert work_began.wait(PATIENCE)
        assert not released.is_set()
    assert released.is_set()


def test_a_service_that_fails_for_ever_can_be_stopped() -> None:
    tried = Event()

    def duty() -> Generator[float, None, None]:
        tried.set()
        raise OSError("never")
        yield

    service = Service("sorter", duty, backoff=Backoff(LONG, LONG))
    service.start()
    assert tried.wait(PATIENCE)
    service.stop(PATIENCE)
    assert not service.health().is_running


def test_a_service_that_never_started_can_be_stopped() -> None:
    Service("sorter", lambda: (_ for _ in ())).stop()


def test_a_result_or_an_error_comes_back_from_a_thread() -> None:
    assert run_in_thread("sum", lambda: 1 + 1).result(PATIENCE) == 2
    with pytest.raises(ZeroDivisionError):
        run_in_thread("division", lambda: 1 / 0).result(PATIENCE)


def test_a_closed_pipe_is_left_alone(tmp_path: Path) -> None:
    """The number of a closed pipe may by now be that of any file."""
    pipe = WakePipe()
    pipe.wake()
    pipe.wait(PATIENCE)
    writer = pipe._writer
    pipe.close()
    with (tmp_path / "foreign").open("wb") as foreign:
        os.dup2(foreign.fileno(), writer)
        pipe.wake()
        pipe.close()
        os.close(writer)
    assert (tmp_path / "foreign").read_bytes() == b""
