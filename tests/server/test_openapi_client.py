"""A scenario with the OpenAPI document alone: operations by id, responses checked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import jsonschema
import pytest
from inprocess import InProcess, in_process
from openapikit import OpenAPIClient


def as_customer(
    data: Path, scenario: Callable[[InProcess, OpenAPIClient], Awaitable[None]]
) -> None:
    async def run(server: InProcess) -> None:
        http = server.http(server.fairlead.keys.add("acme")[0])
        await scenario(server, await OpenAPIClient.connect(http))

    in_process(data, run)


def test_a_client_made_from_the_document_submits_waits_and_reads(tmp_path: Path) -> None:
    async def scenario(server: InProcess, client: OpenAPIClient) -> None:
        raw = await client.call("submitDocuments", b"One letter.", name="a.txt", reference="A-1")
        form = {"file": [("b.txt", b"Two."), ("c.txt", b"Three.")], "metadata": '{"order": 7}'}
        batch = await client.call("submitDocuments", form)
        working = asyncio.to_thread(server.fairlead.run_until_idle, workers=1)
        worker = asyncio.create_task(working)
        document = await client.call("getDocument", document_id=raw["id"], wait=60)
        await worker
        assert (document["state"], document["reference"]) == ("done", "A-1")
        text = {"document_id": raw["id"]}
        assert await client.call("getDocumentText", accept="text/plain", **text) == "One letter."
        parts = await client.call("getDocumentText", accept="application/json", **text)
        assert parts["text"] == "One letter."
        listing = await client.call("listDocuments", metadata={"metadata.order": "7"})
        assert [part["name"] for part in listing["documents"]] == ["c.txt", "b.txt"]
        results = await client.call("listResults", include="text")
        assert {result["text"] for result in results} == {"One letter.", "Two.", "Three."}
        assert (await client.call("getBatch", batch_id=batch["batch"]))["progress"] == 1

    as_customer(tmp_path, scenario)


def test_a_client_made_from_the_document_changes_cancels_and_deletes(tmp_path: Path) -> None:
    async def scenario(_server: InProcess, client: OpenAPIClient) -> None:
        id_ = (await client.call("submitDocuments", b"hello", name="a.txt"))["id"]
        early = await client.answer("getDocumentText", document_id=id_)
        assert (early.status_code, early.json()["code"]) == (409, "not-ready")
        assert (await client.call("explainDocument", document_id=id_))["position"] == 1
        assert (await client.call("updateDocument", {"urgent": True}, document_id=id_))["urgent"]
        assert (await client.call("cancelDocument", document_id=id_))["state"] == "cancelled"
        assert (await client.call("retryDocument", document_id=id_))["state"] == "waiting"
        listed = await client.call("listDocuments", state="waiting", limit=10)
        assert [document["id"] for document in listed["documents"]] == [id_]
        assert (await client.call("getMe"))["pending"] == 1
        assert (await client.answer("deleteDocument", document_id=id_)).status_code == 204
        assert (await client.answer("getDocument", document_id=id_)).status_code == 404

    as_customer(tmp_path, scenario)


def test_the_client_notices_an_answer_that_is_not_as_the_document_says(tmp_path: Path) -> None:
    async def scenario(_server: InProcess, client: OpenAPIClient) -> None:
        fields = client.document["components"]["schemas"]["Document"]["properties"]
        id_ = (await client.call("submitDocuments", b"hello", name="a.txt"))["id"]
        fields["name"] = {"type": "string", "format": "date-time"}
        with pytest.raises(jsonschema.ValidationError):
            await client.call("getDocument", document_id=id_)

    as_customer(tmp_path, scenario)
