"""The list of documents filtered by pipeline, reference, batch and metadata, and its decisions."""

from __future__ import annotations

from pathlib import Path

from dashkit import text
from inprocess import InProcess, in_process

from fairlead.model.states import State


def test_documents_are_found_by_reference_batch_and_metadata(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        fairlead = server.fairlead
        one, _ = fairlead.submit_many("acme", [(b"a", "one.txt"), (b"b", "two.txt")])
        three = fairlead.submit("acme", b"c", name="three.txt", metadata={"order": 471})
        fairlead.submit("bolt", b"d", name="four.txt", metadata={"order": 471})
        browser = server.http(fairlead.keys.add()[0])
        page = text(await browser.get("/documents", params={"batch": one.batch}))
        assert "one.txt" in page
        assert "two.txt" in page
        assert "three.txt" not in page
        page = text(await browser.get("/documents", params={"metadata": "order=471"}))
        assert "three.txt" in page
        assert "four.txt" in page
        assert "one.txt" not in page
        shown = (await browser.get(f"/document/{three.id}")).text
        assert "/documents?metadata=order%3D471" in shown
        assert f"/documents?batch={one.batch}" in (await browser.get(f"/document/{one.id}")).text
        five = fairlead.submit("acme", b"e", name="five.txt", reference="A-17")
        page = text(await browser.get("/documents", params={"reference": " A-17 "}))
        assert "five.txt" in page
        assert "three.txt" not in page
        assert "/documents?reference=A-17" in (await browser.get(f"/document/{five.id}")).text
        own = server.http(fairlead.keys.add("bolt")[0])
        page = text(await own.get("/documents", params={"reference": "A-17"}))
        assert "five.txt" not in page, "it is another customer's"
        page = text(await own.get("/documents", params={"metadata": "order=471"}))
        assert "four.txt" in page
        assert "three.txt" not in page, "it is another customer's"
        page = text(await own.get("/documents", params={"batch": one.batch}))
        assert "one.txt" not in page

    in_process(tmp_path, look)


def test_documents_are_found_by_pipeline(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        fairlead = server.fairlead
        one = fairlead.submit("acme", b"a", name="one.txt", pipeline="invoices")
        fairlead.submit("acme", b"b", name="two.txt")
        operator, other = (fairlead.keys.add(*names)[0] for names in ((), ("bolt",)))
        query = {"pipeline": "invoices"}
        page = await server.http(operator).get("/documents", params=query)
        assert "one.txt" in text(page)
        assert "two.txt" not in text(page)
        assert 'name="pipeline" type="search" value="invoices"' in page.text
        assert 'data-most="0"' in page.text, "events do not say the pipeline"
        shown = (await server.http(operator).get(f"/document/{one.id}")).text
        assert "/documents?pipeline=invoices" in shown
        assert "one.txt" not in text(await server.http(other).get("/documents", params=query))
        listed = await server.client(operator).documents(pipeline="invoices", limit=1)
        assert [document.id for document in listed.items] == [one.id]
        assert (await server.client(other).documents(pipeline="invoices")).items == []

    in_process(tmp_path, look, {"pipelines": {"invoices": {}}})


def test_what_matches_nothing_is_said_and_what_is_wrong_refused(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        browser = server.http(server.fairlead.keys.add()[0])
        for filter_ in ({"batch": "nothing"}, {"metadata": "order=0"}):
            answer = await browser.get("/documents", params=filter_)
            assert answer.status_code == 200
            assert "No document matches" in answer.text
        for filter_ in ({"metadata": "order"}, {"text": "a" * 1001}):
            assert (await browser.get("/documents", params=filter_)).status_code == 400

    in_process(tmp_path, look)


def test_all_that_match_are_those_of_the_batch(tmp_path: Path) -> None:
    async def decide(server: InProcess) -> None:
        fairlead = server.fairlead
        one, two = fairlead.submit_many("acme", [b"a", b"b"])
        other = fairlead.submit("acme", b"c")
        browser = server.http(fairlead.keys.add()[0])
        confirmation = await browser.get(
            "/documents/cancel", params={"all": "true", "batch": one.batch}
        )
        assert "Cancel 2 documents?" in confirmation.text
        assert f'name="batch" value="{one.batch}"' in confirmation.text
        await browser.post("/documents/cancel", data={"all": "1", "batch": one.batch})
        states = [fairlead.document(document.id).state for document in (one, two, other)]
        assert states == [State.CANCELLED, State.CANCELLED, State.WAITING]

    in_process(tmp_path, decide)
