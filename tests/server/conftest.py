from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from apikit import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a file, with one worker."""
    with served(tmp_path_factory.mktemp("served") / "data", "--workers", "1") as running:
        yield running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"
