"""Each submission is one check: counts and priorities are exactly those of the rule."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest
from storekit import Clock, RulesInForce, StoreFactory, fresh_store, submission, submit, submit_one

from fairlead.errors import UnknownCustomer
from fairlead.model.customers import CustomerSettings
from fairlead.model.states import State
from fairlead.storage import Store

VECTORS = Path(__file__).parents[1] / "vectors" / "classic.csv"


def golden_cases() -> dict[str, list[dict[str, str]]]:
    with VECTORS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {case: list(lines) for case, lines in groupby(rows, key=lambda row: row["case"])}


@pytest.mark.parametrize("case", golden_cases())
def test_golden_vectors(store: Store, clock: Clock, case: str) -> None:
    for row in golden_cases()[case]:
        clock.now = float(row["at"])
        document = submit_one(store, row["customer"])
        assert (document.count, document.priority) == (int(row["count"]), int(row["priority"]))


def test_documents_submitted_together_count_like_single_ones(store: Store) -> None:
    together = submit(store, "acme", 30)
    single = [submit_one(store, "globex") for _ in range(30)]
    assert [document.count for document in together] == [-number for number in range(30)]
    assert [document.priority for document in together] == [
        document.priority for document in single
    ]


def test_what_submit_returns_is_what_the_store_keeps(store: Store, clock: Clock) -> None:
    clock.advance(7)
    for document in submit(store, "acme", 5, urgent=True):
        assert store.document(document.id) == document
        assert document.state is State.WAITING
        assert document.submitted_at == clock.now


def test_many_submissions_in_one_step_are_checked_in_their_order(store: Store) -> None:
    accepted = store.submit_each([submission("acme", 2), submission("globex"), submission("acme")])
    groups = [group for group in accepted if not isinstance(group, Exception)]
    assert [[document.count for document in group] for group in groups] == [[0, -1], [0], [-2]]


def test_a_window_resets_on_time_although_documents_keep_coming(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(reset="window", reset_interval=100.0)
    counts = []
    for _ in range(5):
        counts.append(submit_one(store, "acme").count)
        clock.advance(60)
    assert counts == [0, -1, 0, -1, 0]


def test_new_rules_hold_from_the_next_check_on(store: Store, rules: RulesInForce) -> None:
    old = submit(store, "acme", 4)[-1]
    rules.change(thresholds=(-1,))
    assert submit_one(store, "acme").priority == 2
    assert store.document(old.id).priority == 2
    rules.change(thresholds=(-1, -2, -3))
    assert submit_one(store, "acme").priority == 4


def test_own_interval_and_thresholds_hold_for_one_customer_only(store: Store, clock: Clock) -> None:
    submit(store, "acme")
    submit(store, "globex")
    store.set_customer("acme", reset_interval=10.0, thresholds=(0, -1))
    assert submit_one(store, "acme").priority == 2
    assert submit_one(store, "acme").priority == 3
    clock.advance(10)
    assert submit_one(store, "acme").count == -3
    clock.advance(10.001)
    assert submit_one(store, "acme").count == 0
    assert submit_one(store, "globex").count == -1


def test_settings_taken_back_leave_the_installations_own(store: Store) -> None:
    submit(store, "acme", 2)
    store.set_customer("acme", thresholds=(0,))
    store.set_customer("acme", thresholds=None)
    assert store.customer("acme").settings == CustomerSettings()
    assert submit_one(store, "acme").priority == 1


def test_a_reset_forgets_the_count_and_nothing_else(store: Store) -> None:
    submit(store, "acme", 9)
    submit(store, "globex", 2)
    store.reset("acme")
    assert store.customer("acme").counter is None
    assert store.customer("acme").waiting == 9
    assert submit_one(store, "acme").count == 0
    assert submit_one(store, "globex").count == -2


def test_strict_submission_needs_a_known_customer(store: Store) -> None:
    with pytest.raises(UnknownCustomer):
        submit(store, "acme", strict=True)
    assert store.customers() == []
    assert store.events() == []
    assert store.add_customer("acme")
    assert not store.add_customer("acme")
    assert submit_one(store, "acme", strict=True).count == 0


@pytest.mark.parametrize("name", ["pause", "resume", "reset", "customer"])
def test_nothing_can_be_done_with_an_unknown_customer(store: Store, name: str) -> None:
    with pytest.raises(UnknownCustomer):
        getattr(store, name)("nobody")


def test_a_store_opened_again_goes_on_where_it_was(
    store_factory: StoreFactory, tmp_path: Path
) -> None:
    clock, rules = Clock(), RulesInForce()
    first = store_factory(tmp_path, rules, clock)
    accepted = submit(first, "acme", 3)
    first.close()
    second = store_factory(tmp_path, rules, clock)
    assert second.documents() == accepted[::-1]
    assert submit_one(second, "acme").count == -3
    second.close()


def test_two_stores_share_nothing(store_factory: StoreFactory) -> None:
    with fresh_store(store_factory) as one, fresh_store(store_factory) as other:
        submit(one.store, "acme", 3)
        assert submit_one(other.store, "acme").count == 0
