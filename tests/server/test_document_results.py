"""Results of the user's steps: over HTTP, in the client, the command line and the dashboard."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from apikit import Served, problem, served_by, upload
from click.testing import CliRunner
from stepkit import write_module

from fairlead import AsyncClient, Client, Fairlead
from fairlead.cli import main
from fairlead.errors import NotAllowed, NotReady, UnknownFile

STEPS = """
    from fairlead import Job, Refuse, Result, step

    LONG = b"0123456789" * 20_000

    @step(attempts=1)
    def fields(job: Job) -> Result:
        words = job.text.split()
        if words[0] == "refuse":
            raise Refuse("no-total", "No total was found on this invoice.")
        if words[0] == "raise":
            raise ValueError("a secret of the operator's")
        print("reads", job.name)
        files = {"übersicht.csv": b"a,b", "long.bin": LONG}
        return Result(data={"words": len(words), "attempt": job.attempt}, files=files)
"""
LONG = b"0123456789" * 20_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    write_module(folder, STEPS)
    pipelines = {"default": {"steps": ["read", "mysteps:fields"]}}
    search_path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {"FAIRLEAD_PIPELINES": json.dumps(pipelines), "PYTHONPATH": search_path}
    program, options = ("-m", "fairlead"), ("--workers", "1")
    with served_by(program, folder / "data", *options, environment=environment) as running:
        yield running


def ended(client: httpx.Client, content: bytes) -> dict[str, Any]:
    """A document with this content, after it has ended."""
    document: dict[str, Any] = upload(client, content).json()
    while document["state"] in ("waiting", "processing"):
        document = client.get(f"/v1/documents/{document['id']}", params={"wait": 20}).json()
    return document


@pytest.fixture(scope="module")
def acme(server: Served) -> httpx.Client:
    return server.customer("acme")


@pytest.fixture(scope="module")
def done(acme: httpx.Client) -> dict[str, Any]:
    document = ended(acme, b"three short words")
    assert document["state"] == "done", document
    return document


def test_a_result_has_data_and_files(acme: httpx.Client, done: dict[str, Any]) -> None:
    result = acme.get(f"/v1/documents/{done['id']}/result").json()
    assert result["data"] == {"words": 3, "attempt": 1}
    assert (result["id"], result["kind"], result["has_text"]) == (done["id"], "text", True)
    assert [(file["name"], file["media_type"], file["size"]) for file in result["files"]] == [
        ("long.bin", "application/octet-stream", len(LONG)),
        ("übersicht.csv", "text/csv", 3),
    ]
    assert result["files"][0]["sha256"] == hashlib.sha256(LONG).hexdigest()
    assert done["files"] == result["files"]
    assert (done["step"], done["step_attempt"]) == (None, None)
    assert acme.get(f"/v1/documents/{done['id']}/text").text == "three short words"


def test_files_are_sent_whole_in_part_or_not_again(
    acme: httpx.Client, done: dict[str, Any]
) -> None:
    place = f"/v1/documents/{done['id']}/files"
    short, long = acme.get(f"{place}/übersicht.csv"), acme.get(f"{place}/long.bin")
    assert (short.content, short.headers["content-type"]) == (b"a,b", "text/csv; charset=utf-8")
    assert "attachment" in short.headers["content-disposition"]
    assert "sandbox" in short.headers["content-security-policy"]
    assert long.content == LONG
    part = acme.get(f"{place}/long.bin", headers={"Range": "bytes=5-14"})
    assert (part.status_code, part.content) == (206, b"5678901234")
    again = acme.get(f"{place}/long.bin", headers={"If-None-Match": long.headers["etag"]})
    assert again.status_code == 304
    problem(acme.get(f"{place}/other.bin"), "not-found", 404)


def test_another_customers_result_cannot_be_told_from_none(
    server: Served, done: dict[str, Any]
) -> None:
    other = server.customer("other")
    for path in ("result", "files/long.bin"):
        problem(other.get(f"/v1/documents/{done['id']}/{path}"), "unknown-document", 404)
        problem(other.get(f"/v1/documents/nothing/{path}"), "unknown-document", 404)


def test_a_refusal_is_the_customers_and_a_traceback_the_operators(
    server: Served, acme: httpx.Client
) -> None:
    refused, failed = ended(acme, b"refuse it"), ended(acme, b"raise something")
    assert (refused["state"], refused["error"]) == ("failed", "no-total")
    assert refused["detail"] == "No total was found on this invoice."
    assert (failed["state"], failed["error"]) == ("failed", "step-failed")
    assert (failed["step"], failed["step_attempt"]) == ("mysteps:fields", 1)
    assert (refused["step"], refused["step_attempt"]) == ("mysteps:fields", 1)
    assert "secret" not in json.dumps(failed)
    place = f"/v1/documents/{failed['id']}"
    problem(acme.get(f"{place}/result"), "not-ready", 409)
    problem(acme.get(f"{place}/cause"), "forbidden", 403)
    cause = server.operator.get(f"{place}/cause").json()["cause"]
    assert "ValueError: a secret of the operator's" in cause
    assert "in fields" in cause
    with Client(server.url, acme.headers["Authorization"].removeprefix("Bearer ")) as client:
        with pytest.raises(NotReady):
            client.result(failed["id"])
        with pytest.raises(NotAllowed):
            client.cause(failed["id"])
    shown = CliRunner().invoke(main, ["docs", "show", failed["id"], "--data", str(server.data)])
    assert "ValueError: a secret of the operator's" in shown.stdout
    assert re.search(r"step: +mysteps:fields\n *step_attempt: +1", shown.stdout)


def test_clients_and_the_embedded_call_give_the_same(
    server: Served, acme: httpx.Client, done: dict[str, Any]
) -> None:
    key = acme.headers["Authorization"].removeprefix("Bearer ")
    with Client(server.url, key) as client, Fairlead(server.data) as fairlead:
        for result in (client.result(done["id"]), fairlead.result(done["id"])):
            assert repr(result).endswith(
                f"Result of {done['id']}: text, data, 'long.bin', 'übersicht.csv'>"
            )
            assert (result.text, result.markdown) == ("three short words", "three short words")
            assert result.data == {"words": 3, "attempt": 1}
            assert [file.name for file in result.files] == ["long.bin", "übersicht.csv"]
            assert result.file("long.bin") == LONG
            assert result.file("übersicht.csv") == b"a,b"
            with pytest.raises(UnknownFile):
                result.file("other")

    async def ask() -> tuple[str | None, bytes]:
        async with AsyncClient(server.url, key) as client:
            result = await client.result(done["id"])
            return await result.text, await result.file("übersicht.csv")

    assert asyncio.run(ask()) == ("three short words", b"a,b")


def test_the_command_line_shows_data_and_files(server: Served, done: dict[str, Any]) -> None:
    target = ["--data", str(server.data)]
    shown = CliRunner().invoke(main, ["docs", "show", done["id"], *target]).stdout
    assert "  words:" in shown
    assert "text/csv, 3 B" in shown
    as_json = json.loads(
        CliRunner().invoke(main, ["docs", "show", done["id"], "--json", *target]).stdout
    )
    assert as_json["data"]["words"] == 3
    assert as_json["files"][1]["name"] == "übersicht.csv"


def test_the_dashboard_shows_result_and_cause(
    server: Served, acme: httpx.Client, done: dict[str, Any]
) -> None:
    failed = ended(acme, b"raise again")
    with httpx.Client(base_url=server.url, follow_redirects=True, trust_env=False) as browser:
        browser.get(server.login)
        page = browser.get(f"/document/{done['id']}").text
        assert "&#34;words&#34;: 3" in page
        assert f"/v1/documents/{done['id']}/files/%C3%BCbersicht.csv" in page
        page_of_failed = browser.get(f"/document/{failed['id']}").text
        assert "ValueError: a secret of the operator" in page_of_failed
        assert "mysteps:fields <small>Attempt 1</small>" in page_of_failed
    by_customer = acme.get(f"/document/{failed['id']}").text
    assert "secret of the operator" not in by_customer


def test_prints_of_a_step_are_in_the_log_of_the_server(
    server: Served, done: dict[str, Any]
) -> None:
    line = f"fairlead: step mysteps:fields, document {done['id']}: reads 0.txt"
    assert any(line in entry for entry in server.log)
