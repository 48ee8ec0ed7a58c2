"""Lists of documents, newest first, page by page."""

from __future__ import annotations

from pathlib import Path

import pytest
from storekit import (
    DONE,
    Clock,
    RulesInForce,
    StoreFactory,
    ids,
    must_claim,
    new_document,
    submit,
)

from fairlead.model.documents import Submission
from fairlead.model.states import State
from fairlead.storage import Store


def test_documents_are_listed_newest_first(store: Store) -> None:
    documents = submit(store, "acme", 3) + submit(store, "globex", 2)
    assert store.documents() == documents[::-1]


def test_newest_first_follows_acceptance_also_with_several_processes(
    store: Store, store_factory: StoreFactory, tmp_path: Path
) -> None:
    """Neither ids, which were made before, nor the clocks of the processes decide."""
    behind = Clock()
    behind.advance(-1000)
    other = store_factory(tmp_path, RulesInForce(), behind)
    documents = [new_document() for _ in range(8)]
    for number, document in enumerate(reversed(documents)):
        process, customer = (store, other)[number % 2], ("acme", "globex", "bolt")[number % 3]
        process.submit(Submission(customer, (document,)))
    listed = [document.id for document in other.documents()]
    other.close()
    assert listed == [document.id for document in documents]
    assert [document.id for document in store.documents()] == listed


def test_pages_stay_right_while_documents_arrive(store: Store) -> None:
    old = submit(store, "acme", 7)
    pages = [store.documents(limit=3)]
    while pages[-1]:
        submit(store, "globex", 2)
        pages.append(store.documents(before=pages[-1][-1].id, limit=3))
    assert [document.id for page in pages for document in page] == ids(old)[::-1]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_pages_of_a_filtered_list_miss_nothing(store: Store, limit: int) -> None:
    for _ in range(5):
        submit(store, "acme", 2)
        submit(store, "globex")
    listed, before = [], None
    while page := store.documents(customer="globex", before=before, limit=limit):
        listed += page
        before = page[-1].id
    assert listed == [document for document in store.documents() if document.customer == "globex"]


def test_lists_can_be_narrowed(store: Store) -> None:
    submit(store, "acme", 4)
    submit(store, "globex", 2)
    done = must_claim(store)
    store.finish(done, DONE)
    assert ids(store.documents(state=State.DONE)) == [done.id]
    assert {document.priority for document in store.documents(priority=2)} == {2}
    assert len(store.documents(customer="acme", state=State.WAITING, priority=1)) == 2
    assert store.documents(customer="nobody") == []


def test_known_documents_are_those_that_were_accepted(store: Store) -> None:
    documents = submit(store, "acme", 3)
    assert store.known_documents([*ids(documents), "no such id"]) == set(ids(documents))
    assert store.known_documents([]) == set()


def test_lists_can_be_narrowed_by_a_part_of_the_name(store: Store) -> None:
    names = ["Invoice 1.pdf", "letter.txt", "INVOICE_2.pdf", "100%.txt"]
    documents = tuple(new_document()._replace(name=name) for name in names)
    ids_by_name = {
        document.name: document.id for document in store.submit(Submission("acme", documents))
    }
    wanted = [ids_by_name["INVOICE_2.pdf"], ids_by_name["Invoice 1.pdf"]]
    assert ids(store.documents(name="invoice")) == wanted
    assert ids(store.documents(name="0%")) == [ids_by_name["100%.txt"]]
    assert ids(store.documents(name="_2")) == [ids_by_name["INVOICE_2.pdf"]]
    assert store.documents(name="invoice", customer="globex") == []
