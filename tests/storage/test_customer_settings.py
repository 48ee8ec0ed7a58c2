"""Settings of customers: a change touches what it names, and a new customer comes with its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from msgspec.structs import replace
from storekit import Clock, RulesInForce, StoreFactory, let_go_first, submit

from fairlead.errors import InvalidSetting, UnknownCustomer
from fairlead.model.customers import LONGEST_RESET_INTERVAL, CustomerSettings
from fairlead.storage import Store
from fairlead.storage.sql import actions as decisions

CHANGES: list[dict[str, Any]] = [
    {"weight": 2.0},
    {"account": "one bill"},
    {"processing_cap": 4},
    {"pending_cap": 3},
    {"reset_interval": 60.0},
    {"thresholds": (-1, -3)},
    {"requests_a_second": 2.5},
    {"requests_burst": 7},
    {"bytes_a_day": 5},
]
ALL = CustomerSettings(**{name: value for change in CHANGES for name, value in change.items()})


@pytest.fixture
def other(
    store: Store,
    store_factory: StoreFactory,
    tmp_path: Path,
    clock: Clock,
) -> Iterator[Store]:
    """The same store, as another process has it open."""
    other = store_factory(tmp_path, RulesInForce(), clock)
    yield other
    other.close()


def at_once(actions: list[Callable[[], Any]]) -> list[Any]:
    """What came of actions that threads begin together."""
    barrier = Barrier(len(actions))

    def act(action: Callable[[], Any]) -> Any:
        barrier.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


# --- changes ---


def test_a_change_leaves_alone_what_it_does_not_name(store: Store) -> None:
    store.add_customer("acme")
    for change in CHANGES:
        store.set_customer("acme", **change)
    assert store.customer("acme").settings == ALL
    store.set_customer("acme", pending_cap=None, thresholds=None)
    left = replace(ALL, pending_cap=None, thresholds=None)
    assert store.customer("acme").settings == left


def test_a_change_keeps_what_another_process_set_just_before(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_customer("acme")
    let_go_first(store, monkeypatch, lambda: other.set_customer("acme", weight=2.0, bytes_a_day=5))
    store.set_customer("acme", pending_cap=3)
    expected = CustomerSettings(weight=2.0, bytes_a_day=5, pending_cap=3)
    assert store.customer("acme").settings == expected


def test_changes_made_at_once_are_all_kept(store: Store, other: Store) -> None:
    store.add_customer("acme")
    pairs = zip(cycle([store, other]), CHANGES)
    at_once([partial(own_store.set_customer, "acme", **change) for own_store, change in pairs])
    assert store.customer("acme").settings == ALL


def test_a_weight_is_kept_that_another_of_the_account_got_just_before(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        store.add_customer(name, account="both")
    let_go_first(store, monkeypatch, lambda: other.set_customer("a", weight=5.0))
    store.set_customer("b", pending_cap=3)
    assert store.customer("b").settings == CustomerSettings(
        weight=5.0, account="both", pending_cap=3
    )


def test_each_change_is_told_with_all_that_then_holds(store: Store) -> None:
    store.add_customer("acme", by="anna")
    store.set_customer("acme", weight=2.0, by="ben")
    store.set_customer("acme", thresholds=(-1,), by="carl")
    assert [(event.actor, event.kind, event.data) for event in store.audit()] == [
        ("carl", "customer-set", {"weight": 2.0, "thresholds": [-1]}),
        ("ben", "customer-set", {"weight": 2.0}),
        ("anna", "customer-added", {}),
    ]


WRONG: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"weight": -1.0}, InvalidSetting),
    ({"pending_cap": -1}, InvalidSetting),
    ({"thresholds": (1, 2)}, InvalidSetting),
    ({"reset_interval": -5}, InvalidSetting),
    ({"reset_interval": LONGEST_RESET_INTERVAL + 1}, InvalidSetting),
    ({"colour": "red"}, InvalidSetting),
]


@pytest.mark.parametrize(("wrong", "error"), WRONG)
def test_a_wrong_change_is_refused_whole(
    store: Store, wrong: dict[str, Any], error: type[Exception]
) -> None:
    store.add_customer("acme", pending_cap=3)
    before = store.last_event()
    with pytest.raises(error, match=next(iter(wrong))):
        store.set_customer("acme", **{"processing_cap": 2} | wrong)
    assert store.customer("acme").settings == CustomerSettings(pending_cap=3)
    assert store.last_event() == before


def test_settings_of_an_unknown_customer_are_refused(store: Store) -> None:
    with pytest.raises(UnknownCustomer):
        store.set_customer("nobody", weight=2.0)
    assert store.customers() == []


# --- new customers ---


def test_a_customer_comes_with_its_settings(store: Store) -> None:
    assert store.add_customer("acme", by="anna", pending_cap=3, account="bill")
    assert store.customer("acme").settings == CustomerSettings(account="bill", pending_cap=3)
    assert [(event.actor, event.kind, event.data) for event in store.audit()] == [
        ("anna", "customer-set", {"account": "bill", "pending_cap": 3}),
        ("anna", "customer-added", {}),
    ]


def test_one_that_is_there_stays_as_it_is(store: Store) -> None:
    submit(store, "acme")
    last = store.last_event()
    assert not store.add_customer("acme", pending_cap=3)
    assert store.customer("acme").settings == CustomerSettings()
    assert store.last_event() == last


@pytest.mark.parametrize(("wrong", "error"), WRONG)
def test_a_customer_with_wrong_settings_is_not_added(
    store: Store, wrong: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(wrong))):
        store.add_customer("acme", **wrong)
    assert store.customers() == []
    assert store.events() == []


def test_a_customer_is_never_there_without_its_settings(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error between the two steps rolls back both; no reader sees the first one before."""
    seen = []

    def break_off(*_: object) -> None:
        seen.append(other.customers())
        raise ZeroDivisionError

    monkeypatch.setattr(decisions, "set_customer", break_off)
    with pytest.raises(ZeroDivisionError):
        store.add_customer("acme", pending_cap=3)
    assert seen == [[]]
    assert store.customers() == []


def test_of_those_who_add_one_customer_at_once_one_does(store: Store, other: Store) -> None:
    caps = range(1, 9)
    pairs = zip(cycle([store, other]), caps)
    added = at_once(
        [partial(own_store.add_customer, "acme", pending_cap=cap) for own_store, cap in pairs]
    )
    assert sorted(added) == [False] * 7 + [True]
    assert store.customer("acme").settings.pending_cap == caps[added.index(True)]
    assert [event.kind for event in store.events()] == ["customer-added", "customer-set"]


def test_who_adds_a_customer_just_after_another_changes_nothing(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go_first(store, monkeypatch, lambda: other.add_customer("acme", pending_cap=1))
    assert not store.add_customer("acme", pending_cap=2)
    assert store.customer("acme").settings.pending_cap == 1
