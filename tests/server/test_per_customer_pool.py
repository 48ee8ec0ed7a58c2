"""Threads that customers share: none of them takes all, and none waits for another's line."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from queue import Queue
from threading import Event

import pytest

from fairlead.server.per_customer_pool import SHARE, SharedThreads


class Slow:
    """A call that tells when it begins, and ends when it may."""

    def __init__(self) -> None:
        self.begun = Queue[int]()
        self.may_end = Event()

    def __call__(self) -> int:
        self.begun.put(1)
        self.may_end.wait()
        return 1


@pytest.fixture
def threads() -> Iterator[SharedThreads]:
    made = SharedThreads("test")
    yield made
    made.close()


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.may_end.set()


def test_no_customer_has_more_than_its_share(threads: SharedThreads, slow: Slow) -> None:
    answers = [threads.submit("acme", slow) for _ in range(5 * SHARE)]
    for _ in range(SHARE):
        slow.begun.get()
    assert threads.submit("globex", lambda: "at once").result(60) == "at once"
    assert threads.submit(None, lambda: "too").result(60) == "too"
    assert slow.begun.empty()
    slow.may_end.set()
    assert sum(each.result() for each in answers) == 5 * SHARE


def test_an_error_is_for_who_asked_and_ends_nothing(threads: SharedThreads) -> None:
    answers = [threads.submit("acme", lambda: 1 // 0) for _ in range(2 * SHARE)]
    for each in answers:
        with pytest.raises(ZeroDivisionError):
            each.result()
    assert threads.submit("acme", lambda: 2).result() == 2


def test_what_has_not_begun_can_be_taken_back(threads: SharedThreads, slow: Slow) -> None:
    begun = [threads.submit("acme", slow) for _ in range(SHARE)]
    for _ in range(SHARE):
        slow.begun.get()
    waiting = threads.submit("acme", slow)
    assert waiting.cancel()
    assert not begun[0].cancel()
    slow.may_end.set()
    assert threads.submit("acme", lambda: 2).result() == 2
    assert slow.begun.empty()


def test_when_it_closes_what_was_begun_ends_and_nothing_begins(slow: Slow) -> None:
    threads = SharedThreads("test")
    answers = [threads.submit("acme", slow) for _ in range(SHARE + 1)]
    for _ in range(SHARE):
        slow.begun.get()
    answers[-1].add_done_callback(lambda _taken_back: slow.may_end.set())
    threads.close()
    assert [each.result() for each in answers[:-1]] == [1] * SHARE
    for each in (answers[-1], threads.submit("acme", slow)):
        with pytest.raises(CancelledError):
            each.result()
    assert slow.begun.empty()
