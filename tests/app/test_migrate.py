"""Carrying a data folder over to PostgreSQL: nothing lost, counts kept, and it goes on alike."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import postgreskit
import pytest
from storekit import Clock, RulesInForce, new_document, postgres_store, submission, submit
from webhookkit import SECRET

from fairlead import Fairlead
from fairlead.app.migrate import migrate_store
from fairlead.errors import DataInUse, NoDataFolder, TargetNotEmpty
from fairlead.model.documents import Broken, Done, Failed, ShortTexts, Submission
from fairlead.model.explanations import QueuePlace
from fairlead.model.keys import key_owner
from fairlead.model.webhooks import WebhookRecord, WebhookResponse
from fairlead.storage import Store
from fairlead.storage.sqlite import SqliteStore

pytestmark = pytest.mark.services

EVERY_BYTE = bytes(range(256)) * 40
DONE = Done("text/plain", {"pages": 1, "title": "Größe"}, None, "0" * 64, 1.5)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """A folder that stands for an empty schema."""
    folder = tmp_path / "target"
    folder.mkdir()
    with postgreskit.lent(folder):
        yield folder


def live_a_little(store: Store) -> None:
    """A row of every sort: every state, urgent, paused, capped, deleted, webhooks, keys, parts."""
    store.use_policy("fair")
    for name in ("acme", "globex", "paused", "of one bill"):
        store.add_customer(name, by="somebody")
    store.set_customer("globex", weight=2.5, processing_cap=3, thresholds=(-1,))
    store.set_customer("of one bill", account="bill", reset_interval=3.0)
    store.add_key("key", "1" * 64, key_owner("acme"), by="somebody")
    store.revoke_key(store.add_key("operator's", "2" * 64, key_owner()).id)
    webhook = WebhookRecord("hook", "acme", "http://a.test/", ("document.done",), SECRET)
    store.outbox.add(webhook)
    store.attend("engine", 3)
    for name in ("acme", "globex", "paused", "of one bill"):
        submit(store, name, 6, key=f"key of {name}")
        store.submit(submission(name, 2, urgent=True))
        store.submit(Submission(name, (new_document(content=EVERY_BYTE),)))
    store.pause("paused")
    claims = store.claim_for(["worker"] * 9)
    store.finish(claims[0], DONE._replace(short=ShortTexts(b"text", b"# text")))
    store.finish(claims[1], DONE._replace(parts=submission("acme", 2).documents))
    store.finish(claims[2], Failed("damaged", "it ends in the middle"))
    store.finish(claims[3], Broken("crashed", "the reader crashed"))
    store.cancel(claims[4].id)
    store.delete(claims[5].id, by="somebody")
    store.release([claims[6]])
    sending = store.outbox.claim()
    assert sending is not None
    store.outbox.settle(sending, WebhookResponse(500, "oh no"), jitter=0.5)


def everything(store: Store) -> dict[str, Any]:
    """All that the port tells."""
    documents = store.documents(limit=1000)
    ids = [document.id for document in documents]
    return {
        "documents": documents,
        "places": {id_: place_of(store, id_) for id_ in ids},
        "texts": {id_: store.short_texts(id_) for id_ in ids},
        "originals": {id_: store.original(id_) for id_ in ids},
        "known texts": store.known_texts(ids),
        "customers": store.customers(),
        "events": store.events(limit=10_000),
        "audit": store.audit(limit=10_000),
        "last event": store.last_event(),
        "keys": store.keys(),
        "tallies": store.tallies(),
        "totals": store.totals(),
        "holders": store.lease_holders(),
        "policy": store.policy(),
        "fairness": store.fairness(),
        "outlooks": {id_: store.outlook(id_) for id_ in ids},
        "webhooks": store.outbox.webhooks(),
        "deliveries": store.outbox.deliveries("hook"),
        "next": store.outbox.next_at(),
        "deleted": [
            store.deleted_customer(event.document) for event in store.events(limit=10_000)
            if event.document
        ],
        "idle": store.is_idle(),
    }  # fmt: skip


def place_of(store: Store, id_: str) -> QueuePlace | None:
    """A document's place; databases add up fractions in their own ways."""
    place = store.place(id_)
    if place is None:
        return None
    rounded = (round(place.seconds, 9), round(place.own_seconds, 9))
    return place._replace(seconds=rounded[0], own_seconds=rounded[1])


def go_on(store: Store, clock: Clock) -> list[Any]:
    """What happens next, step by step."""
    outcomes: list[Any] = []
    for name in ("acme", "paused", "new"):
        outcomes += [
            (document.count, document.priority, document.estimate)
            for document in submit(store, name, 2)
        ]
    store.resume("paused")
    for _ in range(20):
        clock.advance(7)
        for claim in store.claim_for(["a", "b"]):
            outcomes.append((claim.customer, claim.priority, claim.attempts))
            store.finish(claim, DONE)
    outcomes += [event.kind for event in store.events(limit=10_000)]
    outcomes.append(store.outbox.test("hook").id)
    return outcomes


def test_everything_is_carried_over_and_goes_on_alike(tmp_path: Path, target: Path) -> None:
    data, twin = tmp_path / "data", tmp_path / "twin"
    data.mkdir()
    clock, rules = Clock(), RulesInForce()
    store = SqliteStore(data / "fairlead.db", rules=rules, clock=clock)
    live_a_little(store)
    store.close()
    shutil.copytree(data, twin)

    numbers = migrate_store(data, postgreskit.url_for(target))

    embedded = SqliteStore(twin / "fairlead.db", rules=rules, clock=clock)
    carried = postgres_store(target, rules, clock)
    before, after = everything(embedded), everything(carried)
    for name, value in before.items():
        assert after[name] == value, name
    assert numbers["documents"] == len(before["documents"])
    assert numbers["events"] == len(before["events"])
    with closing(apsw.Connection(str(twin / "fairlead.db"))) as connection:
        for table in ("originals", "results"):
            assert numbers[table] == connection.execute(f"SELECT count(*) FROM {table}").get > 0
    assert carried.problems() == []
    start = clock.now
    expected = go_on(embedded, clock)
    clock.now = start
    assert go_on(carried, clock) == expected
    assert carried.problems() == []
    embedded.close()
    carried.close()


def test_the_folder_goes_on_with_the_server_and_not_without(tmp_path: Path, target: Path) -> None:
    data, url = tmp_path / "data", postgreskit.url_for(target)
    with Fairlead(data) as fairlead:
        document = fairlead.submit("acme", b"one", name="1.txt")
    migrate_store(data, url)
    with pytest.raises(NoDataFolder, match="were moved"):
        Fairlead(data)
    with Fairlead(data, settings={"store": url}) as fairlead:
        assert fairlead.document(document.id) == document
        assert fairlead.original(document.id) == b"one"
        assert fairlead.submit("acme", b"two", name="2.txt").count == -1
        fairlead.run_until_idle(workers=1)
        assert fairlead.text(document.id) == "one"


def test_a_target_that_is_in_use_is_refused_and_nothing_changes(
    tmp_path: Path, target: Path
) -> None:
    data = tmp_path / "data"
    with Fairlead(data) as fairlead:
        fairlead.submit("acme", b"one", name="1.txt")
    used = postgres_store(target, RulesInForce(), Clock())
    submit(used, "theirs")
    with pytest.raises(TargetNotEmpty, match="empty database"):
        migrate_store(data, postgreskit.url_for(target))
    assert [customer.name for customer in used.customers()] == ["theirs"]
    used.close()
    with Fairlead(data) as fairlead:
        assert fairlead.queue.totals().waiting == 1


def test_a_folder_that_is_served_is_refused(tmp_path: Path, target: Path) -> None:
    data, url = tmp_path / "data", postgreskit.url_for(target)
    with Fairlead(data) as fairlead, fairlead.folder.as_server(), pytest.raises(DataInUse):
        migrate_store(data, url)


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoDataFolder):
        migrate_store(tmp_path, "postgresql://127.0.0.1:1/x")
