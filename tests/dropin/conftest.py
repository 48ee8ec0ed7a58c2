"""Real servers, one of each for the whole run, and a fresh corner of them for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import servers

_numbers = count(1)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[servers.Server]:
    with servers.redis() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[servers.Server]:
    with servers.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[servers.Server]:
    with servers.rabbitmq() as server:
        yield server


@pytest.fixture(params=["redis", "postgres", "sqlite"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger may be, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    server: servers.Server = request.getfixturevalue(f"{request.param}_server")
    return server.url


@pytest.fixture
def unique() -> str:
    """A word that no other test has used on the shared servers."""
    return f"test{next(_numbers)}"
