"""Two servers on one PostgreSQL database: isolation of customers, outages, no loss."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import postgreskit
import pytest
from apikit import Served, served
from postgreskit import Server

from fairlead import Fairlead
from fairlead.server.app import create_app
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext


@pytest.fixture
def frail() -> Iterator[Server]:
    """A PostgreSQL server that a test may kill; it loses nothing."""
    with postgreskit.frail_server() as server:
        yield server


@pytest.fixture
def machines(
    frail: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Served, Served]]:
    """Two servers with folders of their own, one database and one place for files."""
    monkeypatch.setenv("FAIRLEAD_STORE", frail.url)
    monkeypatch.setenv("FAIRLEAD_FILES", str(tmp_path / "shared"))
    with (
        served(tmp_path / "one", "--workers", "1") as one,
        served(tmp_path / "two", "--workers", "1") as two,
    ):
        yield one, two


def sent(client: httpx.Client, content: str, key: str) -> httpx.Response:
    files = {"file": ("a.txt", content.encode())}
    return client.post("/v1/documents", files=files, headers={"Idempotency-Key": key})


def wait_for_end(client: httpx.Client, id_: str) -> dict[str, object]:
    while True:
        response = client.get(f"/v1/documents/{id_}", params={"wait": 20})
        if response.status_code == 200 and response.json()["state"] not in (
            "waiting",
            "processing",
        ):
            answer: dict[str, object] = response.json()
            return answer


def test_nothing_is_lost_when_the_database_is_killed_under_two_servers(
    frail: Server, machines: tuple[Served, Served]
) -> None:
    one, two = machines
    key = one.key("acme")
    first, second = one.client(key), two.client(key)
    ids = [sent(first, f"before {n}", f"b{n}").json()["id"] for n in range(5)]
    assert [sent(second, f"before {n}", f"b{n}").json()["id"] for n in range(5)] == ids
    frail.kill()
    refused = sent(first, "meanwhile", "m")
    assert refused.status_code == 503
    assert refused.headers["Retry-After"]
    assert refused.json()["type"].endswith(":unavailable")
    assert second.get("/v1/documents").status_code == 503
    assert second.get("/readyz").status_code == 503
    assert second.get("/livez").status_code == 200
    frail.start()
    accepted = sent(first, "meanwhile", "m")
    assert accepted.status_code == 202
    ids += [accepted.json()["id"], sent(second, "after", "a").json()["id"]]
    ends = [wait_for_end(second, id_) for id_ in ids]
    assert {end["state"] for end in ends} == {"done"}
    texts = [first.get(f"/v1/documents/{end['id']}/text").text for end in ends]
    assert texts == [*(f"before {n}" for n in range(5)), "meanwhile", "after"]
    every = first.get("/v1/documents", params={"limit": 100}).json()["documents"]
    assert sorted(document["count"] for document in every) == [
        -number for number in range(6, -1, -1)
    ]


def test_the_database_keeps_customers_apart_where_we_forgot_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulated bug in the API: every customer may see every document."""
    monkeypatch.setattr(Caller, "may_see", lambda _self, _customer: True)
    with postgreskit.lent(tmp_path):
        settings = {"store": postgreskit.url_for(tmp_path)}
        with Fairlead(tmp_path / "data", settings=settings) as fairlead:
            other = fairlead.submit("globex", b"secret", name="secret.txt")
            mine, _ = fairlead.keys.add("acme")
            operators, _ = fairlead.keys.operator_key()
            statuses, seen = asyncio.run(ask(fairlead, other.id, mine, operators))
    assert statuses == {"": 404, "/text": 404, "/why": 404, "/file": 404}
    assert seen["customer"] == "globex"


async def ask(
    fairlead: Fairlead, id_: str, mine: str, operators: str
) -> tuple[dict[str, int], dict[str, object]]:
    context = ServerContext(fairlead)
    context.open()
    line = httpx.ASGITransport(create_app(context))
    statuses = {}
    async with httpx.AsyncClient(transport=line, base_url="http://test") as client:
        for path in ("", "/text", "/why", "/file"):
            headers = {"Authorization": f"Bearer {mine}"}
            answer = await client.get(f"/v1/documents/{id_}{path}", headers=headers)
            statuses[path] = answer.status_code
        headers = {"Authorization": f"Bearer {operators}"}
        seen = (await client.get(f"/v1/documents/{id_}", headers=headers)).json()
    context.close()
    return statuses, seen
