"""Submissions that come together are accepted and refused as if one came after the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storekit import STORES, RulesInForce, fresh_store, histories, new_document, submission

from fairlead.errors import DailyBytesReached, Refused, UnknownCustomer
from fairlead.model.documents import Document, NewDocument, Sniff, Submission
from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import Rules
from fairlead.storage import Store

NAMES = ("acme", "globex", "initech", "new one")
KNOWN: dict[str, dict[str, Any]] = {
    "acme": {"account": "one bill", "weight": 2.0},
    "globex": {"account": "one bill", "pending_cap": 3},
    "initech": {"bytes_a_day": 70, "thresholds": (-1, -2)},
}

looks = st.sampled_from([Sniff("text"), Sniff("pdf", 4), Sniff("pdf", 90)])
documents = st.builds(
    lambda urgent, look, content: new_document(urgent=urgent, content=content)._replace(look=look),
    st.booleans(),
    looks,
    st.sampled_from([None, b"short"]),
)
submissions = st.builds(
    Submission,
    st.sampled_from(NAMES),
    st.lists(documents, min_size=1, max_size=3).map(tuple),
    st.booleans(),
    st.sampled_from([None, None, "one key", "another"]),
    st.sampled_from(["body", "another body"]),
    *(st.none(),) * 4,  # else Hypothesis makes up senders, ids of batches and keys
)
batches = st.lists(st.lists(submissions, min_size=1, max_size=8), min_size=1, max_size=3)


def shown(answer: list[Document] | Exception) -> object:
    return answer if isinstance(answer, list) else (type(answer), str(answer))


def one_by_one(store: Store, batch: list[Submission]) -> list[object]:
    answers: list[list[Document] | Exception] = []
    for request in batch:
        try:
            answers.append(store.submit(request))
        except Refused as refusal:
            answers.append(refusal)
    return [shown(answer) for answer in answers]


def books(store: Store) -> list[object]:
    """All that the store knows about customers, documents and events."""
    events = [(event.kind, event.customer, event.document) for event in store.events()]
    content: list[Any] = [store.original(document.id) for document in store.documents()]
    # The event of a new customer comes first, before the events of documents in the same write.
    return [store.customers(), store.documents(), sorted(events, key=str), content]


@pytest.mark.hypothesis
@pytest.mark.parametrize("policy", ["classic", "fair"])
@pytest.mark.parametrize("name", STORES)
def test_a_batch_is_as_good_as_one_after_the_other(name: str, policy: PolicyName) -> None:
    factory = STORES[name]

    @settings(max_examples=histories(factory, 60))
    @given(batches)
    def compare(history: list[list[Submission]]) -> None:
        rules = Rules(policy=policy, unit=0.05)
        with fresh_store(factory, rules) as together, fresh_store(factory, rules) as apart:
            for store in (together.store, apart.store):
                for customer, own in KNOWN.items():
                    store.add_customer(customer, **own)
            for batch in history:
                shown_together = [shown(outcome) for outcome in together.store.submit_each(batch)]
                assert shown_together == one_by_one(apart.store, batch)
                together.clock.advance(400)
                apart.clock.advance(400)
            assert books(together.store) == books(apart.store)
            assert together.store.problems() == []

    compare()


def test_a_key_that_comes_twice_stands_for_one_document(store: Store) -> None:
    first, retry = store.submit_each([submission("acme", key="key"), submission("acme", key="key")])
    assert first == retry
    assert len(store.documents()) == 1


def test_who_is_refused_at_first_sight_is_not_added(store: Store, rules: RulesInForce) -> None:
    rules.change(daily_bytes=15)
    large, strict, small = store.submit_each(
        [submission("acme", 2), submission("globex", strict=True), submission("initech")]
    )
    assert isinstance(large, DailyBytesReached)
    assert isinstance(strict, UnknownCustomer)
    assert isinstance(small, list)
    assert [customer.name for customer in store.customers()] == ["initech"]


def test_an_error_of_one_touches_no_other(store: Store) -> None:
    """What no database takes: a number that is too long."""
    wrong: Any = NewDocument("0" * 26, "a.txt", 10, "0" * 64, look=Sniff("text", pages=1 << 70))
    first, error, second = store.submit_each(
        [submission("acme"), Submission("globex", (wrong,)), submission("acme")]
    )
    assert isinstance(error, Exception)
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert [document.count for document in first + second] == [0, -1]
    assert [customer.name for customer in store.customers()] == ["acme"]
