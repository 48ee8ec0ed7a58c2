"""Idle: nothing runs, and nothing will run without an operator."""

from __future__ import annotations

from storekit import CRASHED, DONE, LEASE, Clock, must_claim, submit

from fairlead.storage import Store


def test_an_empty_store_is_idle(store: Store) -> None:
    assert store.is_idle()
    store.add_customer("acme")
    assert store.is_idle()


def test_waiting_processing_and_delayed_documents_keep_it_busy(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    assert not store.is_idle()
    store.finish(must_claim(store), CRASHED)
    assert not store.is_idle()
    clock.advance(2)
    claim = must_claim(store)
    assert not store.is_idle()
    store.finish(claim, DONE)
    assert store.is_idle()


def test_a_paused_customer_does_not_keep_it_busy(store: Store) -> None:
    submit(store, "acme", 2)
    store.finish(must_claim(store), CRASHED)
    store.pause("acme")
    assert store.is_idle()
    store.resume("acme")
    assert not store.is_idle()


def test_what_a_paused_customer_has_under_way_keeps_it_busy(store: Store) -> None:
    submit(store, "acme", 2)
    claim = must_claim(store)
    store.pause("acme")
    assert not store.is_idle()
    store.finish(claim, DONE)
    assert store.is_idle()


def test_documents_behind_a_cap_keep_it_busy(store: Store) -> None:
    submit(store, "acme", 2)
    store.set_customer("acme", processing_cap=1)
    must_claim(store)
    assert not store.is_idle()


def test_a_lost_worker_keeps_it_busy_until_its_document_has_an_end(
    store: Store, clock: Clock
) -> None:
    submit(store, "acme")
    must_claim(store)
    clock.advance(LEASE * 100)
    assert not store.is_idle()


def test_a_claim_in_vain_changes_nothing(store: Store, clock: Clock) -> None:
    """Else an idle engine, which looks again after every change, would never come to rest."""
    submit(store, "acme", 2)
    store.pause("acme")
    store.claim("worker")
    before = store.changes.version()
    clock.advance(5.0)
    assert store.claim_for(["worker", "another"]) == []
    assert store.changes.version() == before
