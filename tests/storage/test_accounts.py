"""Accounts that several customers share, under the fair rule in a store."""

from __future__ import annotations

import pytest
from storekit import RulesInForce, customers_of, submit

from fairlead.policy.rules import Rules
from fairlead.storage import Store


@pytest.fixture
def rules() -> RulesInForce:
    return RulesInForce(Rules(policy="fair"))


def test_customers_of_an_account_that_was_folded_before_are_claimed(store: Store) -> None:
    """A claim meets them by their submissions, and only then loads their account."""
    for name in ("a", "b", "c"):
        store.add_customer(name, account="shared")
    store.fold()
    submit(store, "a", 2)
    submit(store, "b")
    assert sorted(customers_of(store.claim_for(["worker"] * 4))) == ["a", "a", "b"]
