"""Decisions of operators about a customer in the dashboard, and its usage."""

from __future__ import annotations

from pathlib import Path

import pytest
from dashkit import text
from inprocess import InProcess, in_process

from fairlead.errors import UnknownCustomer

REASON = "invoice 4711 is unpaid"


def test_operators_block_and_unblock_with_a_reason(tmp_path: Path) -> None:
    async def decide(server: InProcess) -> None:
        fairlead = server.fairlead
        fairlead.submit("acme", b"one")
        browser = server.http(fairlead.keys.add()[0])
        page = await browser.get("/customer", params={"name": "acme"})
        assert "/customer/block?name=acme" in page.text
        confirmation = await browser.get("/customer/block", params={"name": "acme"})
        assert 'name="reason"' in confirmation.text
        form = {"name": "acme", "reason": f" {REASON} "}
        answer = await browser.post("/customer/block", data=form)
        assert answer.status_code == 303
        assert fairlead.customers.show("acme").blocked == REASON
        page = await browser.get(answer.headers["location"])
        assert "The customer is blocked." in page.text
        assert "/customer/unblock?name=acme" in page.text
        assert "/customer/block?name=acme" not in page.text
        answer = await browser.post("/customer/unblock", data={"name": "acme"})
        assert "The customer was unblocked." in text(await browser.get(answer.headers["location"]))
        assert fairlead.customers.show("acme").blocked is None
        answer = await browser.post("/customer/block", data={"name": "acme", "reason": " "})
        assert answer.status_code == 400
        assert fairlead.customers.show("acme").blocked is None

    in_process(tmp_path, decide)


def test_operators_delete_a_customer(tmp_path: Path) -> None:
    async def decide(server: InProcess) -> None:
        fairlead = server.fairlead
        document = fairlead.submit("hooli", b"one")
        browser = server.http(fairlead.keys.add()[0])
        confirmation = text(await browser.get("/customer/delete", params={"name": "hooli"}))
        assert "cannot be undone" in confirmation
        assert fairlead.document(document.id) == document, "nothing happens before the answer"
        answer = await browser.post("/customer/delete", data={"name": "hooli"})
        page = text(await browser.get(answer.headers["location"]))
        assert "The customer was deleted." in page
        assert "hooli" not in page
        with pytest.raises(UnknownCustomer):
            fairlead.customers.show("hooli")

    in_process(tmp_path, decide)


def test_the_page_of_a_customer_has_its_usage_by_day(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        fairlead = server.fairlead
        fairlead.submit_many("acme", [b"x" * 1234, b"y" * 1000])
        fairlead.submit("bolt", b"z" * 98_765)
        operator = server.http(fairlead.keys.add()[0])
        page = text(await operator.get("/customer", params={"name": "acme"}))
        assert "2.2 kB" in page.partition("Usage by day")[2]
        own = text(await server.http(fairlead.keys.add("acme")[0]).get("/"))
        assert "2.2 kB" in own.partition("Usage by day")[2]
        assert "96.5 kB" not in own
        page = text(await operator.get("/customer", params={"name": "bolt"}))
        assert "96.5 kB" in page.partition("Usage by day")[2]

    in_process(tmp_path, look)


def test_a_viewer_is_offered_no_decision(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        server.fairlead.submit("acme", b"one")
        browser = server.http(server.fairlead.keys.add(viewer="eyes")[0])
        page = await browser.get("/customer", params={"name": "acme"})
        assert "/customer/block" not in page.text
        assert "/customer/delete" not in page.text
        for decision in ("block", "unblock", "delete"):
            answer = await browser.get(f"/customer/{decision}", params={"name": "acme"})
            assert answer.status_code == 403
            form = {"name": "acme", "reason": REASON}
            assert (await browser.post(f"/customer/{decision}", data=form)).status_code == 403
        assert server.fairlead.customers.show("acme").blocked is None

    in_process(tmp_path, look)
