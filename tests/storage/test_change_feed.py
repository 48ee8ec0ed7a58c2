"""The change feed: every subscriber learns of every commit, once."""

from __future__ import annotations

from storekit import submit_one

from fairlead.change_feed import ChangeFeed
from fairlead.storage import Store


def test_each_subscriber_sees_each_change_once() -> None:
    version = [1]
    feed = ChangeFeed(lambda: version[0], 0.5)
    first, second = feed.subscribe(), feed.subscribe()
    assert first.changed(), "what came before the first look counts"
    assert not first.changed()
    version[0] += 1
    assert first.changed()
    assert second.changed()
    assert not second.changed()


def test_only_open_subscriptions_are_woken() -> None:
    woken: list[str] = []
    feed = ChangeFeed(lambda: 0, 0.5)
    first = feed.subscribe(lambda: woken.append("first"))
    with feed.subscribe(lambda: woken.append("second")):
        feed.announce()
    first.close()
    first.close()
    feed.announce()
    assert woken == ["first", "second"]


def test_a_commit_is_a_change(store: Store) -> None:
    with store.changes.subscribe() as changes:
        changes.changed()
        submit_one(store, "acme")
        assert changes.changed()
        assert not changes.changed()


def test_a_commit_has_woken_subscribers_of_its_process_when_it_returns(store: Store) -> None:
    woken: list[str] = []
    with store.changes.subscribe(lambda: woken.append("woken")):
        submit_one(store, "acme")
        assert woken
