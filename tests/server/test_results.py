"""/v1/results over HTTP: lines in order of completion, cursors, long polls, isolation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from apikit import Served, problem, served
from resultkit import add_done, add_failed

from fairlead import Fairlead


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without workers, with results of two customers."""
    with served(tmp_path_factory.mktemp("served") / "data", "--workers", "0") as running:
        with Fairlead(running.data) as fairlead:
            add_done(fairlead, "acme", ["one", "two", "three"])
            add_done(fairlead, "bolt", ["secret"])
            add_failed(fairlead, "acme")
        yield running


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def test_an_operator_sees_all_results_in_order(server: Served) -> None:
    results = lines(server.operator.get("/v1/results"))
    names = [line["name"] for line in results]
    assert names == ["one.txt", "two.txt", "three.txt", "secret.txt", "broken.txt"]
    assert [line["state"] for line in results] == ["done"] * 4 + ["failed"]
    assert "text" not in results[0]
    document = server.operator.get(f"/v1/documents/{results[0]['id']}").json()
    assert {name: results[0][name] for name in document} == document


def test_pages_follow_the_cursor(server: Served) -> None:
    results = lines(server.operator.get("/v1/results?limit=2"))
    after = results[-1]["cursor"]
    results += lines(server.operator.get("/v1/results", params={"after": after}))
    assert results == lines(server.operator.get("/v1/results"))
    assert lines(server.operator.get(f"/v1/results?after={results[-1]['cursor']}")) == []


def test_contents_come_where_they_are_asked_for(server: Served) -> None:
    results = lines(server.operator.get("/v1/results?include=text,data&customer=acme"))
    assert [line["text"] for line in results] == ["one", "two", "three", None]
    assert "data" in results[0]
    assert "markdown" not in results[0]


def test_a_customer_sees_nothing_of_others(server: Served) -> None:
    bolt = server.customer("bolt")
    assert [line["customer"] for line in lines(bolt.get("/v1/results"))] == ["bolt"]
    assert lines(bolt.get("/v1/results?customer=bolt")) == lines(bolt.get("/v1/results"))
    problem(bolt.get("/v1/results?customer=acme"), "forbidden", 403)
    problem(bolt.get("/v1/results?customer=nobody"), "forbidden", 403)
    everything = lines(server.operator.get("/v1/results"))
    foreign = next(line for line in everything if line["customer"] == "acme")
    after = bolt.get("/v1/results", params={"after": foreign["cursor"], "include": "text"})
    assert [line["text"] for line in lines(after)] == ["secret"]
    nobody = server.client(None)
    problem(nobody.get("/v1/results"), "unauthorised", 401)


@pytest.mark.parametrize(
    ("query", "kind", "status"),
    [
        ("after=x", "invalid-cursor", 400),
        ("after=999999", "invalid-cursor", 400),
        ("include=words", "invalid-request", 400),
        ("limit=0", "invalid-request", 400),
        ("wait=61", "invalid-request", 400),
        ("befor=1", "invalid-request", 400),
        ("customer=nobody", "unknown-customer", 404),
    ],
)
def test_wrong_queries_are_refused(server: Served, query: str, kind: str, status: int) -> None:
    problem(server.operator.get(f"/v1/results?{query}"), kind, status)


def test_a_long_poll_is_answered_when_a_document_ends(server: Served) -> None:
    last = lines(server.operator.get("/v1/results"))[-1]["cursor"]
    with Fairlead(server.data) as fairlead:
        fairlead.submit("cork", b"other event")  # which must end no long poll
        fairlead.customers.pause("cork")
        writer = Thread(target=add_done, args=(fairlead, "acme", ["late"]))
        writer.start()
        results = lines(server.operator.get(f"/v1/results?after={last}&wait=60&include=text"))
        writer.join()
    assert [line["text"] for line in results] == ["late"]
    nothing = server.operator.get(f"/v1/results?after={results[-1]['cursor']}&wait=0.01")
    assert lines(nothing) == []


def test_long_texts_are_read_from_their_files(server: Served, tmp_path: Path) -> None:
    long_text = "word " * 40_000
    source = tmp_path / "long.txt"
    source.write_text(long_text)
    with Fairlead(server.data) as fairlead:
        document = fairlead.submit("dune", source)
        fairlead.run_until_idle(workers=1)
    (line,) = lines(server.customer("dune").get("/v1/results?include=text"))
    assert line["id"] == document.id
    assert line["text"].split() == long_text.split()
