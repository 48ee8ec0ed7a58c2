"""Fields of an upload: documents have them, listings filter by them, invalid ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apikit import problem
from inprocess import InProcess, in_process

from fairlead.errors import IdempotencyConflict
from fairlead.model.states import State

FIELDS = {
    "pipeline": "invoices",
    "metadata": '{"order": 471}',
    "reference": "A-17",
    "not_before": "3600",
}


@pytest.fixture(autouse=True)
def invoices(tmp_path: Path) -> None:
    """Servers know a pipeline by its name."""
    (tmp_path / "fairlead.toml").write_text("[pipelines.invoices]\n")


def test_an_unknown_pipeline_is_refused_by_name(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        key, _ = server.fairlead.keys.add("acme")
        fields = {"pipeline": "orders"}
        answer = await server.http(key).post("/v1/documents", files={"file": b"a"}, data=fields)
        assert answer.status_code == 400
        assert "unknown pipeline 'orders'; known are: default, invoices" in answer.json()["detail"]
        assert not server.fairlead.documents().items

    in_process(tmp_path, send)


def test_the_fields_of_a_form_come_back(tmp_path: Path) -> None:
    async def send(server: InProcess) -> dict[str, Any]:
        key, _ = server.fairlead.keys.add("acme")
        answer = await server.http(key).post("/v1/documents", files={"file": b"a"}, data=FIELDS)
        assert answer.status_code == 202, answer.text
        again = await server.http(key).get(answer.headers["location"])
        assert again.json() == answer.json()
        return dict(answer.json())

    document = in_process(tmp_path, send)
    assert document["pipeline"] == "invoices"
    assert document["metadata"] == {"order": 471}
    assert document["reference"] == "A-17"
    assert document["not_before"] > document["submitted_at"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pipeline", "in voices"),
        ("metadata", "[1]"),
        ("metadata", "{"),
        ("metadata", '{"a": "' + 5000 * "x" + '"}'),
        ("reference", 201 * "x"),
        ("not_before", "soon"),
    ],
)
def test_a_field_that_is_not_valid_is_refused(tmp_path: Path, field: str, value: str) -> None:
    async def send(server: InProcess) -> None:
        client = server.http(server.fairlead.keys.add("acme")[0])
        answer = await client.post("/v1/documents", files={"file": b"a"}, data={field: value})
        assert field.split("_", maxsplit=1)[0] in problem(answer, "invalid-request", 400)["detail"]
        assert not server.fairlead.documents().items

    in_process(tmp_path, send)


@pytest.mark.parametrize("form", [True, False])
def test_a_field_that_came_twice_is_refused(tmp_path: Path, form: bool) -> None:
    async def send(server: InProcess) -> None:
        client = server.http(server.fairlead.keys.add(service="shop")[0])
        if form:
            customers: Any = {"customer": ["acme", "beta"]}
            response = await client.post("/v1/documents", files={"file": b"a"}, data=customers)
        else:
            query = "/v1/documents?name=a.txt&customer=acme&customer=beta"
            response = await client.post(query, content=b"a")
        detail = problem(response, "invalid-upload", 400)["detail"]
        assert detail == "the field customer came twice; send it once"
        assert not server.fairlead.documents().items

    in_process(tmp_path, send)


def test_the_client_sends_and_finds_them(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        other = server.client(server.fairlead.keys.add("globex")[0])
        document = await client.submit(
            {"order": 7}, metadata={"order": 471, "paid": True}, reference="A-17", not_before=60
        )
        await client.submit(b"another", metadata={"order": 472})
        assert document.name == "document.json"
        assert await client.original(document.id) == b'{"order":7}'
        for query in ({"reference": "A-17"}, {"metadata": {"order": 471, "paid": True}}):
            assert [listed.id async for listed in await client.documents(**query)] == [document.id]
            assert (await other.documents(**query)).items == []

    in_process(tmp_path, send)


def test_all_fields_belong_to_the_idempotency_key(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        fields: dict[str, Any] = {"metadata": {"a": 1, "b": 2}, "reference": "A", "not_before": 60}
        first = await client.submit(b"a", idempotency_key="k", **fields)
        same = fields | {"metadata": {"b": 2, "a": 1}}
        assert await client.submit(b"a", idempotency_key="k", **same) == first
        changes: list[dict[str, Any]] = [
            *({"metadata": {"a": 1}}, {"reference": None}, {"not_before": 61}),
            {"pipeline": "invoices"},
        ]
        for change in changes:
            with pytest.raises(IdempotencyConflict):
                await client.submit(b"a", idempotency_key="k", **fields | change)

    in_process(tmp_path, send)


def test_why_says_that_a_document_waits_for_its_time(tmp_path: Path) -> None:
    async def ask(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        document = await client.submit(b"a", not_before=3600)
        assert document.state is State.WAITING
        explanation = await client.why(document.id)
        assert "not-before" in [reason.code for reason in explanation.reasons]

    in_process(tmp_path, ask)


def test_fields_can_be_changed_later(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        theirs = server.http(server.fairlead.keys.add("globex")[0])
        document = await client.submit(b"a", reference="A", metadata={"order": 1})
        changed = await client.change(document.id, urgent=True, metadata={"order": 2})
        assert (changed.urgent, changed.metadata, changed.reference) == (True, {"order": 2}, "A")
        assert (await client.change(document.id, reference=None)).reference is None
        path = f"/v1/documents/{document.id}"
        problem(await theirs.patch(path, json={"urgent": False}), "unknown-document", 404)
        own = server.http(server.fairlead.keys.add("acme")[0])
        bodies: list[dict[str, Any]] = [{}, {"priority": 1}, {"reference": ""}, {"metadata": []}]
        for body in bodies:
            problem(await own.patch(path, json=body), "invalid-request", 400)
        stale = await own.patch(path, json={"urgent": False}, headers={"If-Match": '"x"'})
        problem(stale, "precondition-failed", 412)
        assert (await client.document(document.id)).urgent

    in_process(tmp_path, send)
