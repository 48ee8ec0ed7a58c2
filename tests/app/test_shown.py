"""What a shell and a notebook show of an installation, documents, pages and explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from resultkit import add_done, add_failed

from fairlead import AsyncClient, Client, Fairlead
from fairlead.model.installation import AsyncListingPage
from fairlead.model.notebook import records_html

HOSTILE = "<script>alert('x')<!--.txt"


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data") as installation:
        yield installation


def test_an_installation_says_where_it_is_and_whether_it_is_closed(fairlead: Fairlead) -> None:
    folder = fairlead.folder.path
    assert repr(fairlead) == f"<Fairlead in {folder}, open>"
    fairlead.close()
    assert repr(fairlead) == f"<Fairlead in {folder}, closed>"
    assert f"<td>{folder}</td>" in fairlead._repr_html_()


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_a_client_shows_its_server_without_secrets(make: Callable[..., Client]) -> None:
    client = make("http://example.com:8321", "fl_key_secret")
    assert repr(client) == f"<{make.__name__} of http://example.com:8321, open>"
    assert "http://example.com:8321" in client._repr_html_()
    assert "secret" not in repr(client) + client._repr_html_()


def test_a_document_shows_its_state_in_one_line(fairlead: Fairlead) -> None:
    with fairlead:
        waiting = fairlead.submit("acme", b"secret words", name=HOSTILE, password="hush")
        shown = f"<Document {waiting.id} {HOSTILE!r} of 'acme': waiting, priority 1, count 0>"
        assert repr(waiting) == shown
        fairlead.cancel(waiting.id)
        assert repr(fairlead.document(waiting.id)).endswith(": cancelled>")
        (done,) = add_done(fairlead, "acme", ["words"])
        assert repr(done).endswith(": done>")
        assert repr(replace(done, seconds=1.25)).endswith(": done in 1.25 s>")
        assert repr(add_failed(fairlead, "acme")).endswith(": failed, damaged>")
        (ended, *_) = fairlead.results(include=["text"])
        assert repr(ended).startswith("<EndedDocument ")
        assert "&lt;script&gt;" in waiting._repr_html_()
        assert "<script>" not in waiting._repr_html_()
        assert "hush" not in waiting._repr_html_()


def test_a_page_is_a_small_table(fairlead: Fairlead) -> None:
    with fairlead:
        fairlead.submit_many("acme", [(b"x", f"{number}.txt") for number in range(30)])
        fairlead.submit("acme", b"x", name=HOSTILE)
        page = fairlead.documents(limit=25)
        assert repr(page) == "<ListingPage of Document: 25, more follow>"
        html = page._repr_html_()
        assert html.count("<tr>") == 1 + 20
        assert "<p>and 5 more</p>" in html
        assert "&lt;script&gt;" in html
        assert "<script>" not in html
        empty = fairlead.documents(name="nothing")
        assert repr(empty) == "<ListingPage: 0>"
        assert empty._repr_html_() == records_html("<ListingPage: 0>", [])


def test_a_page_of_the_async_client_is_shown_in_the_same_way() -> None:
    async def fetch(_cursor: str) -> AsyncListingPage[str]:
        raise NotImplementedError

    assert repr(AsyncListingPage(["one"], None, fetch)) == "<AsyncListingPage of str: 1>"


def test_an_explanation_shows_its_sentences(fairlead: Fairlead) -> None:
    with fairlead:
        fairlead.submit("acme", b"one")
        document = fairlead.submit("acme", b"two")
        explanation = fairlead.why(document.id)
        assert repr(explanation).startswith(f"<Explanation of {document.id}: position 2; count-")
        for reason in explanation.reasons:
            assert reason.words
            assert f"<li>{reason.words}</li>" in explanation._repr_html_()


def test_a_result_shows_what_it_has(fairlead: Fairlead) -> None:
    with fairlead:
        id_ = add_done(fairlead, "acme", ["words"])[0].id
        assert repr(fairlead.result(id_)) == f"<DocumentResult of {id_}: text>"
        assert f"DocumentResult of {id_}: text" in fairlead.result(id_)._repr_html_()
