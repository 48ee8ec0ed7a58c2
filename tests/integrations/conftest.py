"""Real servers, one of each for the whole run, and a fresh corner of them for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any

import postgreskit
import pytest
import servers
from celerykit import Kit

from fairlead.celery import FairPriorities
from fairlead.integrations.priority_assigner import PriorityOptions

FAIR = {*signature(FairPriorities).parameters, *PriorityOptions.__annotations__}
_numbers = count(1)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[servers.Server]:
    with servers.redis() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> servers.Server:
    return postgreskit.server()


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[servers.Server]:
    with servers.rabbitmq() as server:
        yield server


@pytest.fixture(params=["redis", "postgres", "sqlite"])
def counters_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a counter store, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'counters.db'}"
    server: servers.Server = request.getfixturevalue(f"{request.param}_server")
    return server.url


@pytest.fixture
def unique() -> str:
    """A word that no other test has used on the shared servers."""
    return f"test{next(_numbers)}"


KitFactory = Callable[..., Kit]


@pytest.fixture(params=["redis", "rabbitmq"])
def broker_url(request: pytest.FixtureRequest) -> str:
    """Each broker."""
    server: servers.Server = request.getfixturevalue(f"{request.param}_server")
    return server.url


@pytest.fixture
def make_kit(
    broker_url: str, redis_server: servers.Server, unique: str, tmp_path: Path
) -> Iterator[KitFactory]:
    """Makes the application of a test, with settings for FairPriorities and for Celery."""
    kits: list[Kit] = []

    def make(
        *,
        counters: str | None = None,
        broker: str = broker_url,
        queue: str = unique,
        **settings: Any,
    ) -> Kit:
        fair = {name: settings.pop(name) for name in FAIR if name in settings}
        kit = Kit(broker, counters or redis_server.url, redis_server.url, queue, fair, **settings)
        kits.append(kit)
        return kit

    yield make
    for kit in kits:
        kit.close()


@pytest.fixture
def kit(make_kit: KitFactory) -> Kit:
    """The application without further settings."""
    return make_kit()
