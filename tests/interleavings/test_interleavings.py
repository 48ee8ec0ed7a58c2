"""Clients of one installation at the same time, in every order that a seed can say."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from interleaving_scenarios import SCENARIOS, play

pytestmark = pytest.mark.services
FULL = pytest.mark.full

SEEDS = os.environ.get("INTERLEAVING_SEEDS")
"""Such as 7 or 100-200: these seeds instead, to replay one that failed."""
CASES = [(name, store) for name, scenario in SCENARIOS.items() for store in scenario.stores]
QUICK = [
    pytest.param(name, store, marks=[] if store == "sqlite" or name == "readers" else FULL)
    for name, store in CASES
]
"""`make test` plays scenarios on SQLite, where a step is no round trip, and that of the pool."""


def seeds(first: int, number: int) -> Iterator[int]:
    if SEEDS is None:
        yield from range(first, first + number)
    else:
        low, _, high = SEEDS.partition("-")
        yield from range(int(low), int(high or low) + 1)


def play_all(name: str, store: str, first: int, number: int) -> None:
    for seed in seeds(first, number):
        play(SCENARIOS[name], store, seed)


@pytest.mark.parametrize(("name", "store"), QUICK)
def test_some_orders(name: str, store: str) -> None:
    play_all(name, store, 0, 5)


@FULL
@pytest.mark.parametrize(("name", "store"), CASES)
def test_many_orders(name: str, store: str) -> None:
    play_all(name, store, 0, 200)


@pytest.mark.faults
@pytest.mark.parametrize("portion", range(10))
@pytest.mark.parametrize(("name", "store"), CASES)
def test_very_many_orders(name: str, store: str, portion: int) -> None:
    number = 1000 if store == "sqlite" else 100  # where each step is a round trip to a server
    play_all(name, store, portion * number, number)


@pytest.mark.parametrize(("name", "store"), QUICK)
def test_a_seed_replays(name: str, store: str) -> None:
    assert play(SCENARIOS[name], store, 3) == play(SCENARIOS[name], store, 3)
