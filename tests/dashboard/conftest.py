from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from apikit import Served, served
from bench.installation import fill
from dashkit import browser
from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without workers on an installation with an hour behind it."""
    data = tmp_path_factory.mktemp("full") / "data"
    fill(data)
    with served(data, "--workers", "0", lease=3600) as running:
        yield running


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("empty") / "data", "--workers", "0") as running:
        yield running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for one file: while it is open, this thread has an event loop."""
    with browser() as opened:
        yield opened


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A tab of a new profile; an error in its scripts fails the test."""
    context = chromium.new_context()
    tab = context.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    context.close()
    assert errors == []
