"""Many customers and changes: the page keeps up, at a low cost for the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.dashboard import measure
from playwright.sync_api import Browser

pytestmark = [pytest.mark.services, pytest.mark.full]


def test_a_page_with_many_customers_keeps_up(chromium: Browser, tmp_path: Path) -> None:
    figures = measure(300, 20, 2, tmp_path, settle=0, opened=chromium)
    assert figures.changes > 0
    assert figures.frames > 0
    assert figures.delay > 0  # the last change was seen


@pytest.mark.faults
def test_a_thousand_customers_and_forty_changes_cost_little(
    chromium: Browser, tmp_path: Path
) -> None:
    figures = measure(1000, 40, 20, tmp_path, opened=chromium)
    assert figures.watched < 0.05  # of one core
    assert figures.work < 100  # milliseconds in one task
