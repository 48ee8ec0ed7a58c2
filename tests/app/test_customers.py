"""Customers of an installation, changed and added by several at the same time, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgreskit
import pytest
from storekit import STORES, let_go_first

from fairlead import Fairlead
from fairlead.errors import CustomerExists, InvalidCustomer, InvalidSetting
from fairlead.model.customers import CustomerSettings

Pair = tuple[Fairlead, Fairlead]


@pytest.fixture(params=STORES)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """One installation, as two processes have it open."""
    with postgreskit.lent(tmp_path):
        is_far = request.param == "postgres"
        settings = {"store": postgreskit.url_for(tmp_path)} if is_far else {}
        data = tmp_path / "data"
        with Fairlead(data, settings=settings) as one, Fairlead(data, settings=settings) as other:
            yield one, other


def test_a_change_keeps_what_another_process_set_just_before(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    one.customers.add("acme")
    let_go_first(
        one.store, monkeypatch, lambda: other.customers.set("acme", weight=2.0, account="bill")
    )
    one.customers.set("acme", pending_cap=3)
    assert one.store.customer("acme").settings == CustomerSettings(
        weight=2.0, account="bill", pending_cap=3
    )


def test_one_that_must_be_new_is_left_to_who_came_first(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    let_go_first(one.store, monkeypatch, lambda: other.customers.add("acme", pending_cap=1))
    with pytest.raises(CustomerExists, match="'acme' already exists"):
        one.customers.add("acme", must_be_new=True, pending_cap=2)
    assert one.store.customer("acme").settings.pending_cap == 1


def test_one_that_is_there_gets_the_settings_it_is_added_with(pair: Pair) -> None:
    one, other = pair
    other.customers.add("acme", pending_cap=1)
    assert one.customers.add("acme").pending_cap == 1
    one.customers.add("acme", weight=2.0)
    assert one.store.customer("acme").settings == CustomerSettings(weight=2.0, pending_cap=1)


def test_a_customer_comes_with_its_settings_in_one_commit(pair: Pair) -> None:
    one, _ = pair
    writer = one.store._writer
    before = writer.commits
    one.customers.add("acme", pending_cap=3, by="anna")
    assert writer.commits == before + 1
    assert one.store.customer("acme").settings == CustomerSettings(pending_cap=3)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"weight": 0.0}, InvalidSetting),
        ({"reset_interval": 1e300}, InvalidSetting),
        ({"account": "\x1b[2J"}, InvalidCustomer),
        ({"colour": "red"}, InvalidSetting),
        ({"weight": "heavy"}, InvalidSetting),
        ({"pending_cap": 1.5}, InvalidSetting),
        ({"requests_a_second": True}, InvalidSetting),
    ],
)
def test_nothing_is_made_or_changed_by_what_is_wrong(
    pair: Pair, wrong: dict[str, Any], error: type[Exception]
) -> None:
    one, _ = pair
    with pytest.raises(error):
        one.customers.add("acme", **wrong)
    assert one.customers.list() == []
    one.customers.add("acme", pending_cap=3)
    with pytest.raises(error):
        one.customers.set("acme", **{"processing_cap": 2} | wrong)
    assert one.store.customer("acme").settings == CustomerSettings(pending_cap=3)


def test_none_is_as_for_everybody_the_weight_too(pair: Pair) -> None:
    one, _ = pair
    one.customers.add("acme", weight=2.0, pending_cap=3)
    settings = one.customers.set("acme", weight=None, pending_cap=None)
    assert (settings.weight, settings.pending_cap) == (1.0, None)
