"""A deleted customer leaves numbers: no document, text, key, webhook or name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from resultkit import add_done, add_failed

from fairlead import Fairlead
from fairlead.errors import UnknownCustomer, UnknownKey
from fairlead.model.documents import EventKind


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data") as opened:
        yield opened


def test_everything_goes_and_usage_stays_as_numbers(fairlead: Fairlead) -> None:
    other = add_done(fairlead, "bolt", ["other"])[0]
    add_done(fairlead, "acme", ["a secret text"])
    add_failed(fairlead, "acme")
    fairlead.submit_many("acme", [b"waits", b"x" * 100_000], idempotency_key="k")
    _, key = fairlead.keys.add("acme")
    fairlead.customers.set("acme", account="secret account")
    fairlead.customers.delete("acme")
    with pytest.raises(UnknownCustomer):
        fairlead.customers.show("acme")
    with pytest.raises(UnknownKey):
        fairlead.store.key(key.id)
    assert [document.id for document in fairlead.documents()] == [other.id]
    files = [path for path in fairlead.folder.files.rglob("*") if path.stat().st_size > 50_000]
    assert files == []
    events = list(fairlead.events(after=0, follow=False))
    assert {event.customer for event in events} == {None, "bolt"}
    assert "secret account" not in repr(events)
    assert events[-1].kind is EventKind.CUSTOMER_DELETED
    usage = {row.customer: row.documents for row in fairlead.customers.usage()}
    assert usage == {None: 4, "bolt": 1}
    assert fairlead.store.problems() == []


@pytest.mark.parametrize("add", ["customers", "keys"])
def test_the_customer_begins_anew_when_it_is_added_again(fairlead: Fairlead, add: str) -> None:
    fairlead.submit_many("acme", [b"1", b"2", b"3", b"4"])
    fairlead.customers.delete("acme")
    with pytest.raises(UnknownCustomer, match="add it anew: fairlead customers add acme"):
        fairlead.submit("acme", b"late")
    assert fairlead.customers.list() == []
    getattr(fairlead, add).add("acme")
    assert fairlead.submit("acme", b"first").count == 0
    assert fairlead.customers.show("acme").pending == 1
    with pytest.raises(UnknownCustomer):
        fairlead.customers.delete("nobody")
