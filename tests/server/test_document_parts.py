"""Parts over HTTP: in the JSON of their document, in a long poll, and in the stream of events."""

from __future__ import annotations

import asyncio
from pathlib import Path

from inprocess import InProcess, in_process
from resultkit import DAMAGED, add_mail, claim_all


def test_a_long_poll_ends_when_the_last_part_has_ended(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        fairlead = server.fairlead
        mail = add_mail(fairlead, "acme", ["items.csv"])
        http = server.http(fairlead.keys.add("acme")[0])
        path = f"/v1/documents/{mail.id}"
        before = await http.get(path)
        assert (before.json()["parts"], before.json()["parts_done"]) == (1, 0)
        known = {"If-None-Match": before.headers["etag"]}
        poll = asyncio.create_task(http.get(path, params={"wait": 60}, headers=known))
        while not server.context.event_feed.is_waited_for(mail.id):
            await asyncio.sleep(0)
        (claim,) = claim_all(fairlead, 1)
        fairlead.store.finish(claim, DAMAGED)
        after = await poll
        assert (after.status_code, after.json()["parts_done"]) == (200, 1)
        (part,) = (await http.get("/v1/documents", params={"parent": mail.id})).json()["documents"]
        assert (part["parent"], part["parent_names"]) == (mail.id, ["mail.eml"])

    in_process(tmp_path, look)


def test_the_priority_page_names_and_counts_parts(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        add_mail(server.fairlead, "acme", ["items.csv"])
        http = server.http(server.fairlead.keys.add("acme")[0])
        page = (await http.get("/priority")).text
        assert "mail.eml › items.csv" in page
        assert "0 of 1 attachment has ended" in page

    in_process(tmp_path, look)
