"""Retrying and deleting on pages: passwords, documents that no retry helps, and selections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from dashkit import text, tree
from inprocess import InProcess, in_process
from resultkit import add_done, add_mail, claim_all

from fairlead import Fairlead
from fairlead.model.documents import Document, Failed
from fairlead.model.states import State

Test = Callable[[Fairlead, httpx.AsyncClient], Awaitable[None]]


def with_pages(data: Path, test: Test) -> None:
    """Run the test with the pages of an operator."""

    async def run(server: InProcess) -> None:
        await test(server.fairlead, server.http(server.fairlead.keys.add()[0]))

    in_process(data, run)


def parsed(answer: httpx.Response) -> Any:
    return tree(answer)


def add_failed(fairlead: Fairlead, code: str) -> Document:
    document = fairlead.submit("acme", code.encode(), name=f"{code}.pdf")
    (claim,) = claim_all(fairlead, 1)
    fairlead.store.finish(claim, Failed(code, "it says why"))
    return fairlead.document(document.id)


def state_of(fairlead: Fairlead, document: Document) -> State:
    return fairlead.document(document.id).state


def test_an_encrypted_document_is_retried_with_its_password(data: Path) -> None:
    async def test(fairlead: Fairlead, browser: httpx.AsyncClient) -> None:
        document = add_failed(fairlead, "encrypted")
        page = parsed(await browser.get(f"/document/{document.id}"))
        (link,) = page.xpath("//a[contains(@href, '/documents/retry')]")
        assert link.text == "Retry with the password"
        form = parsed(await browser.get(link.get("href"))).find(".//main//form")
        field = form.find(".//input[@type='password']")
        assert field.get("required") is not None
        sent = {each.get("name"): each.get("value") for each in form.iter("input")}
        sent[field.get("name")] = "a secret & more"
        await browser.post(form.get("action"), data=sent)
        (claim,) = claim_all(fairlead, 1)
        assert (claim.id, claim.password) == (document.id, "a secret & more")

    with_pages(data, test)


def test_all_are_retried_but_those_that_no_retry_helps(data: Path) -> None:
    async def test(fairlead: Fairlead, browser: httpx.AsyncClient) -> None:
        hopeless = [add_failed(fairlead, code) for code in ("unsupported", "damaged", "encrypted")]
        hopeful = [add_failed(fairlead, code) for code in ("time-limit", "step-failed", "own-code")]
        page = await browser.get("/documents/retry?all=true&state=failed")
        assert parsed(page).findtext(".//h1") == "Retry 3 documents?"
        listed = [item.text for item in parsed(page).xpath("//main//ul/li")]
        assert sorted(listed) == ["damaged: 1", "password required: 1", "unsupported kind: 1"]
        answer = await browser.post("/documents/retry", data={"all": "1", "state": "failed"})
        notice = text(await browser.get(answer.headers["location"]))
        assert "3 documents were queued again." in notice
        assert {state_of(fairlead, document) for document in hopeful} == {State.WAITING}
        assert {state_of(fairlead, document) for document in hopeless} == {State.FAILED}
        none = await browser.get("/documents/retry?all=true&state=failed")
        assert parsed(none).findtext(".//h1") == "Nothing to retry"
        assert "damaged: 1" in text(none)
        assert parsed(none).find(".//main//button") is None

    with_pages(data, test)


def test_selected_ones_are_retried_even_if_they_were_damaged(data: Path) -> None:
    async def test(fairlead: Fairlead, browser: httpx.AsyncClient) -> None:
        damaged, encrypted = (add_failed(fairlead, code) for code in ("damaged", "encrypted"))
        ids = [damaged.id, encrypted.id]
        page = parsed(await browser.get("/documents/retry", params={"id": ids}))
        assert page.find(".//input[@type='password']").get("required") is None
        answer = await browser.post("/documents/retry", data={"id": ids})
        notice = text(await browser.get(answer.headers["location"]))
        assert "1 document was queued again." in notice
        assert "1 was left as it is, because it needs a password." in notice
        assert state_of(fairlead, encrypted) is State.FAILED
        assert state_of(fairlead, damaged) is State.WAITING

    with_pages(data, test)


def test_a_password_goes_to_encrypted_documents_only(data: Path) -> None:
    async def test(fairlead: Fairlead, browser: httpx.AsyncClient) -> None:
        ids = [add_failed(fairlead, code).id for code in ("damaged", "encrypted")]
        await browser.post("/documents/retry", data={"id": ids, "password": "secret"})
        passwords = {claim.id: claim.password for claim in claim_all(fairlead, 2)}
        assert passwords == {ids[0]: None, ids[1]: "secret"}

    with_pages(data, test)


def test_without_a_selection_the_page_says_so(data: Path) -> None:
    async def test(fairlead: Fairlead, browser: httpx.AsyncClient) -> None:
        add_failed(fairlead, "time-limit")
        for decision in ("retry", "cancel", "delete"):
            page = await browser.get(f"/documents/{decision}?state=failed")
            assert parsed(page).findtext(".//h1") == "No document is selected"
            assert "Select documents" in text(page)
            assert parsed(page).find(".//main//button") is None

    with_pages(data, test)


def test_selected_documents_are_deleted(data: Path) -> None:
    async def test(fairlead: Fairlead, browser: httpx.AsyncClient) -> None:
        first, second, kept = add_done(fairlead, "acme", ["one", "two", "three"])
        ids = [first.id, second.id]
        page = parsed(await browser.get("/documents/delete", params={"id": ids}))
        assert page.findtext(".//h1") == "Delete 2 documents?"
        answer = await browser.post("/documents/delete", data={"id": ids})
        assert "2 documents were deleted." in text(await browser.get(answer.headers["location"]))
        assert [document.id for document in fairlead.documents()] == [kept.id]
        assert (await browser.post("/documents/delete", data={"all": "1"})).status_code == 404
        assert [document.id for document in fairlead.documents()] == [kept.id]

    with_pages(data, test)


def test_a_document_is_deleted_on_its_page_and_its_parts_stay(data: Path) -> None:
    async def test(fairlead: Fairlead, browser: httpx.AsyncClient) -> None:
        mail = add_mail(fairlead, "acme", ["items.csv"])
        page = parsed(await browser.get(f"/document/{mail.id}"))
        (path,) = page.xpath("//a[contains(@href, '/documents/delete')]/@href")
        confirmation = await browser.get(path)
        assert "Attachments are documents of their own" in text(confirmation)
        answer = await browser.post("/documents/delete", data={"id": mail.id, "single": "1"})
        assert answer.headers["location"].startswith("/documents?done=delete")
        (part,) = fairlead.documents()
        assert (part.parent, part.parent_names) == (mail.id, ())
        assert (await browser.get(f"/document/{part.id}")).status_code == 200

    with_pages(data, test)


def test_nobody_deletes_documents_of_others(data: Path) -> None:
    async def test(server: InProcess) -> None:
        fairlead = server.fairlead
        (document,) = add_done(fairlead, "acme", ["one"])
        other = server.http(fairlead.keys.add("globex")[0])
        answer = await other.post("/documents/delete", data={"id": document.id})
        assert answer.status_code == 404
        assert state_of(fairlead, document) is State.DONE

    in_process(data, test)
