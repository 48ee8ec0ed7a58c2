"""The scheduler of interleavings: one client at a time, every seed replays, deadlocks are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interleaving import Deadlock, Scheduler, TooManySteps
from steps_of_clients import SteppedLock, SteppedSemaphore, make_steps

import fairlead.change_feed


def test_a_seed_replays_and_other_seeds_differ() -> None:
    def trace(seed: int) -> list[str]:
        scheduler = Scheduler(seed)

        def client() -> None:
            for number in range(4):
                scheduler.step(f"step {number}")

        scheduler.run({"a": client, "b": client, "c": client})
        return scheduler.trace

    traces = [trace(seed) for seed in range(20)]
    assert traces == [trace(seed) for seed in range(20)]
    assert len({tuple(steps) for steps in traces}) > 10


def test_a_lost_update_is_found() -> None:
    def is_lost(seed: int) -> bool:
        scheduler, number = Scheduler(seed), [0]

        def add() -> None:
            before = number[0]
            scheduler.step("between the read and the write")
            number[0] = before + 1

        scheduler.run({"one": add, "other": add})
        return number[0] == 1

    assert {is_lost(seed) for seed in range(20)} == {True, False}


def test_a_lock_excludes_other_clients() -> None:
    for seed in range(50):
        assert _steps_inside_a_lock(Scheduler(seed)) == ["in", "out"] * 2


def _steps_inside_a_lock(scheduler: Scheduler) -> list[str]:
    lock, inside = SteppedLock(), list[str]()

    def client() -> None:
        with lock:
            inside.append("in")
            scheduler.step("inside")
            inside.append("out")

    scheduler.run({"one": client, "other": client})
    return inside


def test_a_deadlock_of_locks_is_found_at_once() -> None:
    def seeds_with_deadlock() -> list[tuple[int, str]]:
        found = []
        for seed in range(30):
            first, second = SteppedLock(), SteppedLock()
            scheduler = Scheduler(seed)
            try:
                scheduler.run({"one": both(first, second), "other": both(second, first)})
            except Deadlock as error:
                found.append((seed, str(error).splitlines()[0]))
        return found

    def both(first: SteppedLock, second: SteppedLock) -> Any:
        def take() -> None:
            with first, second:
                pass

        return take

    found = seeds_with_deadlock()
    assert found
    assert all("one waits at 'lock held by another'" in message for _, message in found)
    assert found == seeds_with_deadlock()


def test_two_clients_that_hold_one_of_two_connections_and_want_another_are_a_deadlock() -> None:
    def seeds(most: int) -> int:
        number = 0
        for seed in range(30):
            room = SteppedSemaphore(most)

            def nested(room: SteppedSemaphore = room) -> None:
                with room, room:
                    pass

            try:
                Scheduler(seed).run({"one": nested, "other": nested})
            except Deadlock:
                number += 1
        return number

    assert seeds(2) > 0
    assert seeds(3) == 0


def test_a_client_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleaving.MOST_STEPS", 100)
    scheduler = Scheduler(1)

    def endless() -> None:
        while True:
            scheduler.step("again")

    with pytest.raises(TooManySteps):
        scheduler.run({"endless": endless, "other": lambda: None})


def test_what_a_client_raises_is_its_result(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("wrong")

    results = Scheduler(3).run({"fails": fail, "returns": lambda: 5})
    assert isinstance(results["fails"], ValueError)
    assert results["returns"] == 5


def test_files_and_locks_of_fairlead_are_steps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_steps(monkeypatch, tmp_path)
    scheduler = Scheduler(1)

    def client() -> None:
        fairlead.change_feed.ChangeFeed(lambda: 0, 1.0).announce()
        (tmp_path / "new").write_text("content")
        (tmp_path / "new").rename(tmp_path / "place")
        (tmp_path / "place").unlink()

    scheduler.run({"client": client})
    points = [step.removeprefix("client: ") for step in scheduler.trace]
    assert points == ["lock", "open /new", "os.rename /new", "os.remove /place"]
