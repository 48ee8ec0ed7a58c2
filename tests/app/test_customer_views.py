"""Customers as they are shown, from their records alone: no store is opened."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead.app.customers import EmbeddedCustomers, NextPlace, reset_time
from fairlead.app.keys import EmbeddedKeys
from fairlead.config.data_folder import DataFolder
from fairlead.config.settings import Settings
from fairlead.errors import UnknownCustomer
from fairlead.model.customers import Counter, CustomerRecord, CustomerSettings, Standing
from fairlead.model.explanations import Explanation
from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import Rules
from fairlead.storage import Store

NOW = 1_800_000_000.0


class Records:
    """What `EmbeddedCustomers` asks a store for."""

    def __init__(self, record: CustomerRecord, policy: PolicyName) -> None:
        self._record = record
        self._policy = policy

    def now(self) -> float:
        return NOW

    def policy(self) -> PolicyName:
        return self._policy

    def customer(self, name: str) -> CustomerRecord:
        if name != self._record.name:
            raise UnknownCustomer(name)
        return self._record

    def customers(self) -> list[CustomerRecord]:
        return [self._record]


def record(**changes: Any) -> CustomerRecord:
    usual: dict[str, Any] = {
        "name": "acme",
        "created_at": NOW - 1000,
        "counter": Counter(-4, NOW - 100),
        "paused": False,
        "settings": CustomerSettings(),
        "waiting": 3,
        "processing": 1,
        "last_started_at": NOW - 5,
        "oldest_waiting_at": NOW - 10,
    }
    return CustomerRecord(**(usual | changes))


def customers(stored: CustomerRecord, policy: PolicyName) -> EmbeddedCustomers:
    def nothing_waits(_id: str) -> Explanation:
        raise AssertionError("no document is asked about")

    store = cast("Store", Records(stored, policy))
    keys = EmbeddedKeys(store, cast("DataFolder", None), None)
    return EmbeddedCustomers(
        *(store, Rules, None),
        keys=keys,
        settings=Settings,
        why=nothing_waits,
        delete=lambda _id: None,
    )


def standing(had_lately: float, **changes: Any) -> Standing:
    usual: dict[str, Any] = {"count": -9, "is_beyond": False, "fades_at": NOW + 480.4}
    return Standing(had_lately=had_lately, **(usual | changes))


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_a_plain_name_is_as_good_as_a_record(policy: PolicyName) -> None:
    stored = record(standing=standing(54.0))
    group = customers(stored, policy)
    assert group.rule("acme").label == group.rule(stored).label
    assert group.next_place("acme") == group.next_place(stored)
    assert group.view("acme") == group.view(stored) == group.show("acme") == group.list()[0]
    with pytest.raises(UnknownCustomer):
        group.next_place("nobody")


def test_classic_shows_the_counter() -> None:
    group = customers(record(), "classic")
    assert group.next_place("acme") == NextPlace(-5, 3)
    shown = group.show("acme")
    assert (shown.count, shown.next_priority, shown.resets_in) == (-4, 3, 1400)
    assert (shown.pending, shown.oldest_wait) == (4, 10.0)


def test_fair_shows_the_standing_and_when_it_fades() -> None:
    group = customers(record(standing=standing(54.0)), "fair")
    assert group.next_place("acme") == NextPlace(-9, 5)
    shown = group.show("acme")
    assert (shown.count, shown.next_priority, shown.resets_in) == (-9, 5, 480)


@pytest.mark.parametrize(
    "faded", [None, standing(0.0), standing(0.0, count=0, fades_at=NOW), standing(1, fades_at=NOW)]
)
def test_nothing_is_left_to_fade(faded: Standing | None) -> None:
    group = customers(record(standing=faded), "fair")
    assert group.show("acme").resets_in is None


def test_a_classic_count_that_was_reset_has_no_reset_before_it() -> None:
    group = customers(record(), "classic")
    rule = group.rule("acme")
    assert reset_time(rule, record(), NOW) == NOW + 1400
    assert reset_time(rule, record(counter=None), NOW) is None
    assert reset_time(rule, record(counter=Counter(-4, NOW - 1501)), NOW) is None
