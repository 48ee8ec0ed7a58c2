"""Limits of single customers go before those that hold for everybody."""

from __future__ import annotations

from typing import Any

import pytest
from storekit import RulesInForce, submit

from fairlead.errors import DailyBytesReached, InvalidSetting
from fairlead.model.customers import CustomerSettings
from fairlead.storage import Store


def test_limits_are_kept_told_and_taken_back(store: Store) -> None:
    store.add_customer("acme")
    limits: dict[str, Any] = {"requests_a_second": 2.5, "requests_burst": 7, "bytes_a_day": 1000}
    store.set_customer("acme", by="anna", **limits)
    assert store.customer("acme").settings == CustomerSettings(**limits)
    assert store.audit(limit=1)[0].data == limits
    store.set_customer("acme", **dict.fromkeys(limits))
    assert store.customer("acme").settings == CustomerSettings()


def test_a_customers_own_bytes_a_day_go_first(store: Store, rules: RulesInForce) -> None:
    sent = submit(store, "small")[0].size
    submit(store, "large")
    submit(store, "other")
    rules.change(daily_bytes=2 * sent)
    store.set_customer("small", bytes_a_day=sent)
    store.set_customer("large", bytes_a_day=3 * sent)
    with pytest.raises(DailyBytesReached):
        submit(store, "small")
    submit(store, "large", 2)
    with pytest.raises(DailyBytesReached):
        submit(store, "large")
    submit(store, "other")
    with pytest.raises(DailyBytesReached):
        submit(store, "other")


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests_a_second": 0},
        {"requests_a_second": -1.0},
        {"requests_a_second": 1e7},
        {"requests_a_second": float("nan")},
        {"requests_burst": 0},
        {"bytes_a_day": 0},
        {"bytes_a_day": 10**13},
    ],
)
def test_limits_that_are_none(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(wrong))):
        CustomerSettings(**wrong)  # type: ignore[arg-type]
