from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from apikit import Served, served
from clientkit import Connect, connect_async

from fairlead import Client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a file, with one worker."""
    with served(tmp_path_factory.mktemp("served") / "data", "--workers", "1") as running:
        yield running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(params=[Client, connect_async], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """Makes clients: a test that uses this runs with both kinds."""
    make: Connect = request.param
    return make


@pytest.fixture
def operator(server: Served, connect: Connect) -> Iterator[Client]:
    with connect(server.url, (server.data / "operator.key").read_text()) as client:
        yield client


@pytest.fixture
def acme(server: Served, connect: Connect) -> Iterator[Client]:
    with connect(server.url, server.key("acme")) as client:
        yield client
