"""Quotas of pipelines are kept in the store: the last process that starts sets them."""

from __future__ import annotations

import pytest
from storekit import Clock, submission

from fairlead.model.pipelines import Pipeline
from fairlead.storage import Store


def claimed(store: Store, number: int = 10) -> int:
    return len(store.claim_for([f"worker-{index}" for index in range(number)]))


def test_a_limit_holds_over_all_workers_and_refills_with_time(store: Store, clock: Clock) -> None:
    store.use_quotas([Pipeline("default", limit="2/s")])
    store.submit(submission("acme", 10))
    assert claimed(store) == 2
    assert claimed(store) == 0
    clock.advance(0.5)
    assert claimed(store) == 1
    clock.advance(60)
    assert claimed(store) == 2


def test_the_last_start_wins_and_keeps_what_runs(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.use_quotas([Pipeline("default", max_running=3)])
    store.submit(submission("acme", 10))
    assert claimed(store) == 3
    store.use_quotas([Pipeline("default", max_running=5)])
    assert "now max_running 5 (was max_running 3)" in caplog.text
    assert claimed(store) == 2
    store.use_quotas([Pipeline("default")])
    assert claimed(store) == 5
