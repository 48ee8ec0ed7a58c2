"""Quotas of pipelines are kept in the store: the last process that starts sets them."""

from __future__ import annotations

import pytest
from storekit import DAMAGED, DONE, Clock, must_claim, submission

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


def test_figures_of_pipelines_tell_queue_quota_and_failures(store: Store, clock: Clock) -> None:
    assert store.pipelines() == {}
    store.use_quotas([Pipeline("default", limit="6/min", max_running=4)])
    store.submit(submission("acme", 10))
    for outcome in (DONE, DAMAGED):
        store.finish(must_claim(store), outcome)
        clock.advance(10)
    must_claim(store)
    figures = store.pipelines()["default"]
    assert (figures.limit, figures.max_running) == ("6/min", 4)
    assert (figures.waiting, figures.processing) == (7, 1)
    assert figures.open_at == pytest.approx(clock() + 10)
    assert (figures.ended, figures.failures) == (2, {DAMAGED.code: 1})
    assert figures.since == clock() - 20
    clock.advance(3600)
    later = store.pipelines()["default"]
    assert (later.ended, later.since, later.failures, later.open_at) == (0, None, {}, None)
