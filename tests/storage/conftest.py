"""Fixtures of the contract that every store keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import postgreskit
import pytest
from storekit import STORES, Clock, RulesInForce, StoreFactory

from fairlead.storage import Store


@pytest.fixture(scope="session", params=STORES)
def store_factory(request: pytest.FixtureRequest) -> StoreFactory:
    return STORES[request.param]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rules() -> RulesInForce:
    return RulesInForce()


@pytest.fixture
def store(
    store_factory: StoreFactory, tmp_path: Path, rules: RulesInForce, clock: Clock
) -> Iterator[Store]:
    """A new store; after every test its numbers must be correct."""
    with postgreskit.lent(tmp_path):
        store = store_factory(tmp_path, rules, clock)
        yield store
        assert store.problems() == []
        store.close()
