"""`Fairlead.results`: what has ended, in order, with the contents that were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from resultkit import add_done, add_failed, claim_all, done_with

from fairlead import Fairlead
from fairlead.app.results import PORTION
from fairlead.errors import InvalidCursor, UnknownCustomer, UsageError
from fairlead.model.documents import Document


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data") as opened:
        yield opened


def test_results_have_the_contents_that_were_asked_for(fairlead: Fairlead) -> None:
    document = fairlead.submit("acme", b"a letter", name="letter.html")
    (claim,) = claim_all(fairlead, 1)
    fairlead.store.finish(claim, done_with("Dear all", "# Dear all"))
    add_done(fairlead, "acme", ["plain"])
    bare, _ = fairlead.results()
    assert (bare.id, bare.name, bare.text, bare.markdown) == (
        document.id,
        "letter.html",
        None,
        None,
    )
    full, plain = fairlead.results(include=["text", "markdown"])
    assert (full.text, full.markdown) == ("Dear all", "# Dear all")
    assert plain.markdown == "plain", "a text without layout is its own Markdown"
    assert full.data is None


def test_results_go_on_after_a_cursor(fairlead: Fairlead) -> None:
    documents = add_done(fairlead, "acme", [f"text {n}" for n in range(PORTION + 3)])
    results = list(fairlead.results())
    assert [result.id for result in results] == [document.id for document in documents]
    rest = list(fairlead.results(after=results[PORTION].cursor))
    assert rest == results[PORTION + 1 :]
    assert list(fairlead.results(after=results[-1].cursor)) == []


def test_a_failed_document_is_a_result_without_contents(fairlead: Fairlead) -> None:
    failed = add_failed(fairlead, "acme")
    (result,) = fairlead.results(include=["text"])
    assert (result.id, result.state, result.error, result.text) == (
        *(failed.id, "failed", "damaged"),
        None,
    )


def test_one_damaged_text_does_not_hide_the_results_after_it(fairlead: Fairlead) -> None:
    fairlead.submit("acme", b"a")
    (claim,) = claim_all(fairlead, 1)
    fairlead.store.finish(claim, done_with("right")._replace(text_sha256="0" * 64))
    add_done(fairlead, "acme", ["whole"])
    assert [result.text for result in fairlead.results(include=["text"])] == [None, "whole"]


def test_followed_results_come_as_they_end(fairlead: Fairlead) -> None:
    add_done(fairlead, "acme", ["first"])
    followed = fairlead.results(follow=True, include="text")
    assert next(followed).text == "first"
    writer = Thread(target=add_done, args=(fairlead, "acme", ["second", "third"]))
    writer.start()
    assert [result.text for result in islice(followed, 2)] == ["second", "third"]
    writer.join()


def test_results_of_one_customer(fairlead: Fairlead) -> None:
    add_done(fairlead, "acme", ["a"])
    add_done(fairlead, "bolt", ["b"])
    assert [result.customer for result in fairlead.results(customer="bolt")] == ["bolt"]
    with pytest.raises(UnknownCustomer):
        fairlead.results(customer="nobody")


@pytest.mark.parametrize("cursor", ["", "x", "-1", "99999", "1" * 30, "²"])
def test_what_was_no_cursor_is_refused(fairlead: Fairlead, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        fairlead.results(after=cursor)


def test_unknown_contents_are_refused(fairlead: Fairlead) -> None:
    with pytest.raises(UsageError, match="text, markdown, data; got words"):
        fairlead.results(include=["words"])


def test_the_expected_end_follows_the_last_waiting_document(fairlead: Fairlead) -> None:
    assert fairlead.customers.add("acme").pending == 0
    assert fairlead.customers.standing("acme").expected_end is None
    fairlead.submit_many("acme", [b"first", b"last"])
    assert fairlead.customers.standing("acme").expected_end is None, "there is no worker"
    fairlead.store.attend("engine", 2)
    claim_all(fairlead, 1)
    standing = fairlead.customers.standing("acme")
    assert (standing.pending, standing.processing) == (2, 1)
    assert standing.expected_end is not None
    assert standing.expected_end >= fairlead.store.now() - 1
    fairlead.customers.pause("acme")
    assert fairlead.customers.standing("acme").expected_end is None


def test_standing_takes_no_notice_of_a_document_that_is_deleted_meanwhile(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = fairlead.submit("acme", b"gone soon")
    listed = fairlead.store.documents

    def list_and_delete(**query: Any) -> list[Document]:
        documents = listed(**query)
        monkeypatch.undo()
        fairlead.delete(document.id)
        return documents

    monkeypatch.setattr(fairlead.store, "documents", list_and_delete)
    assert fairlead.customers.standing("acme").expected_end is None


def test_the_expected_end_is_known_where_the_newest_document_starts_later(
    fairlead: Fairlead,
) -> None:
    fairlead.submit("acme", b"now")
    later = fairlead.submit("acme", b"later", not_before=3600)
    assert fairlead.customers.standing("acme").expected_end is None, "there is no worker"
    fairlead.store.attend("engine", 2)
    end = fairlead.customers.standing("acme").expected_end
    assert later.not_before is not None
    assert end == later.not_before + later.estimate


def test_the_expected_end_of_delayed_documents_is_unknown_without_a_worker(
    fairlead: Fairlead,
) -> None:
    documents = fairlead.submit_many("acme", [(b"a", "a"), (b"b", "b")], not_before=3600)
    batch, last = documents[0].batch or "", documents[-1]

    def ends() -> set[float | None]:
        standing = fairlead.customers.standing("acme")
        return {standing.expected_end, fairlead.batches.show(batch).expected_end}

    assert ends() == {None}
    fairlead.store.attend("engine", 2)
    assert last.not_before is not None
    assert ends() == {last.not_before + last.estimate}
