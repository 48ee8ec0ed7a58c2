"""Attachments on pages: named after their document, below it, and counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from inprocess import InProcess, in_process
from lxml import html
from resultkit import DAMAGED, add_mail, claim_all, done_with

from fairlead.i18n import translator
from fairlead.model.documents import Failed
from fairlead.server.dashboard.facts import shown_facts, warnings
from fairlead.server.dashboard.last_hour import LastHour
from fairlead.server.dashboard.live_view import Changes, Snapshot

Test = Callable[[InProcess, httpx.AsyncClient], Awaitable[None]]


def with_pages(data: Path, test: Test) -> None:
    """Run the test with the pages of an operator."""

    async def run(server: InProcess) -> None:
        await test(server, server.http(server.fairlead.keys.add()[0]))

    in_process(data, run)


def parsed(page: str) -> Any:
    return html.document_fromstring(page)


def names(page: str) -> list[tuple[str, str]]:
    rows = parsed(page).xpath("//table[@data-table='documents']/tbody/tr")
    return [(row.get("class"), row.find("th").text_content()) for row in rows]


def test_a_list_shows_parts_below_their_document(data: Path) -> None:
    async def test(server: InProcess, browser: httpx.AsyncClient) -> None:
        add_mail(server.fairlead, "acme", ["items.csv", "logo.png"])
        server.fairlead.submit("acme", b"later", name="later.txt")
        page = (await browser.get("/documents")).text
        assert names(page) == [
            ("depth0", "later.txt"),
            ("depth0", "mail.eml"),
            ("depth1", "mail.eml › items.csv"),
            ("depth1", "mail.eml › logo.png"),
        ]
        waiting = (await browser.get("/documents?state=waiting&text=csv")).text
        assert names(waiting) == [("depth0", "mail.eml › items.csv")]

    with_pages(data, test)


def test_the_attachments_of_one_document_are_listed_for_its_customer(data: Path) -> None:
    async def test(server: InProcess, browser: httpx.AsyncClient) -> None:
        fairlead = server.fairlead
        mail = add_mail(fairlead, "acme", ["items.csv"])
        add_mail(fairlead, "globex", ["other.csv"])
        query = {"parent": mail.id}
        page = (await browser.get("/documents", params=query)).text
        assert names(page) == [("depth0", "mail.eml › items.csv")]
        other = server.http(fairlead.keys.add("globex")[0])
        assert names((await other.get("/documents", params=query)).text) == []
        unknown = await browser.get("/documents", params={"parent": "nothing"})
        assert (unknown.status_code, names(unknown.text)) == (200, [])

    with_pages(data, test)


def test_a_document_says_how_many_of_its_parts_have_ended(data: Path) -> None:
    async def test(server: InProcess, browser: httpx.AsyncClient) -> None:
        mail = add_mail(server.fairlead, "acme", ["a.csv", "b.csv", "c.csv"])
        (claim,) = claim_all(server.fairlead, 1)
        server.fairlead.store.finish(claim, done_with("a"))
        tree = parsed((await browser.get("/documents")).text)
        (cell,) = tree.xpath(f"//tr[@data-key='{mail.id}']//*[@data-f='parts']")
        assert cell.findtext("strong") == "1/3"
        page = (await browser.get(f"/document/{mail.id}")).text
        assert "1 of 3 attachments have ended" in page
        assert [name for _, name in names(page)] == [
            *("mail.eml › a.csv", "mail.eml › b.csv", "mail.eml › c.csv"),
        ]
        part = server.fairlead.documents(parent=mail.id).items[0]
        heading = parsed((await browser.get(f"/document/{part.id}")).text).find(".//h1")
        assert heading.text_content().startswith("mail.eml › c.csv")
        assert heading.find("a").get("href") == f"/document/{mail.id}"

    with_pages(data, test)


def test_viewers_of_a_list_see_the_numbers_change(data: Path) -> None:
    async def test(server: InProcess, browser: httpx.AsyncClient) -> None:
        fairlead = server.fairlead
        mail = add_mail(fairlead, "acme", ["a.csv"])
        snapshot = Snapshot(fairlead)
        snapshot.update(Changes(), LastHour(), 1)
        (claim,) = claim_all(fairlead, 1)
        fairlead.store.finish(claim, DAMAGED)
        changes = Changes(everything=False, customers={"acme"}, documents={claim.id: None})
        message = snapshot.update(changes, LastHour(), 2)
        assert message is not None
        rows = {row["id"]: row for row in message.documents}
        assert rows[mail.id]["parts"] == "1/1"
        assert rows[mail.id]["only_update"]
        assert rows[claim.id]["full_name"] == "mail.eml › a.csv"
        assert not rows[claim.id]["only_update"]

    with_pages(data, test)


def test_operators_see_the_exception_of_a_failed_step_in_lists(data: Path) -> None:
    async def test(server: InProcess, browser: httpx.AsyncClient) -> None:
        fairlead = server.fairlead
        fairlead.submit("acme", b"order")
        (claim,) = claim_all(fairlead, 1)
        cause = "step fields: Traceback (most recent call last):\n  …\nValueError: no total\n"
        fairlead.store.finish(claim, Failed("step-failed", "ask the operator", cause=cause))
        tree = parsed((await browser.get("/documents")).text)
        assert tree.xpath("//tbody//*[@data-f='cause']/text()") == ["ValueError: no total"]
        own = server.http(fairlead.keys.add("acme")[0])
        for path in ("/documents", "/"):
            assert "no total" not in (await own.get(path)).text

    with_pages(data, test)


def test_the_page_of_a_document_shows_its_id_facts_and_warnings(data: Path) -> None:
    async def test(server: InProcess, browser: httpx.AsyncClient) -> None:
        fairlead = server.fairlead
        document = fairlead.submit("acme", b"scan" * 6000, name="scan.pdf")
        (claim,) = claim_all(fairlead, 1)
        needs = "reading pictures of text needs the extra ocr: pip install 'fairlead[ocr]'"
        facts = {
            "pages": 2,
            "language": "de",
            "words": 0,
            "warnings": [needs],
            "invoice": {"number": "4711", "total": 119.5, "lines": [1]},
        }
        fairlead.store.finish(claim, done_with("")._replace(facts=facts))
        page = (await browser.get(f"/document/{document.id}")).text
        tree = parsed(page)
        assert tree.get_element_by_id("document-id").text == document.id
        assert tree.xpath("//ul[@class='warnings']/li/text()") == [needs]
        shown = dict(
            zip(
                tree.xpath("//dl[@class='facts']/dt/text()"),
                [cell.text_content() for cell in tree.xpath("//dl[@class='facts']/dd")],
                strict=True,
            )
        )
        assert shown["Invoice number"] == "4711"
        assert shown["Total"] == "119.5"
        assert shown["Size"] == "23.4 kB"
        assert (shown["Page count"], shown["Words"]) == ("2", "0")
        assert "if no other document arrives" not in page

    with_pages(data, test)


def test_facts_of_other_types_are_left_out() -> None:
    english = translator("en")
    assert shown_facts({"words": [1], "title": {"a": 1}, "invoice": "no"}, english) == []
    assert warnings({"warnings": "no list"}) == []
