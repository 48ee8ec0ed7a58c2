"""Batches over HTTP: several files of one request, their progress and their end."""

from __future__ import annotations

from pathlib import Path

import pytest
from apikit import problem
from inprocess import InProcess, in_process

from fairlead.errors import BatchEnded, UnknownBatch
from fairlead.model.states import State

FILES = [("file", ("a.txt", b"a")), ("file", ("b.txt", b"b"))]


def test_several_files_form_a_batch(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.http(server.fairlead.keys.add("acme")[0])
        answer = await client.post("/v1/documents", files=FILES)
        body = answer.json()
        assert answer.headers["location"] == f"/v1/batches/{body['batch']}"
        assert {document["batch"] for document in body["documents"]} == {body["batch"]}
        batch = (await client.get(answer.headers["location"])).json()
        assert (batch["documents"], batch["waiting"], batch["progress"]) == (2, 2, 0.0)
        listed = await client.get("/v1/documents", params={"batch": body["batch"]})
        assert len(listed.json()["documents"]) == 2
        one = await client.post("/v1/documents", files=FILES[:1])
        assert one.json()["batch"] is None

    in_process(tmp_path, send)


def test_a_repeated_request_gives_the_same_batch(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.http(server.fairlead.keys.add("acme")[0])
        headers = {"Idempotency-Key": "k"}
        first = await client.post("/v1/documents", files=FILES, headers=headers)
        again = await client.post("/v1/documents", files=FILES, headers=headers)
        assert first.json() == again.json()

    in_process(tmp_path, send)


def test_it_is_added_to_cancelled_and_then_closed(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        documents = await client.submit_many([b"a", b"b"])
        batch = documents[0].batch
        assert batch is not None
        assert (await client.submit(b"c", batch=batch)).batch == batch
        ended = await client.batches.cancel(batch)
        assert (ended.cancelled, ended.pending, ended.progress) == (3, 0, 1.0)
        assert ended.finished_at is not None
        assert await client.batches.cancel(batch) == ended
        with pytest.raises(BatchEnded):
            await client.submit(b"d", batch=batch)
        with pytest.raises(UnknownBatch):
            await client.batches.show("b" + documents[0].id[::-1])

    in_process(tmp_path, send)


def test_a_batch_of_another_customer_is_unknown(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        ours = server.client(server.fairlead.keys.add("acme")[0])
        theirs = server.http(server.fairlead.keys.add("globex")[0])
        (document, _) = await ours.submit_many([b"a", b"b"])
        path = f"/v1/batches/{document.batch}"
        problem(await theirs.get(path), "unknown-batch", 404)
        problem(await theirs.post(f"{path}/cancel"), "unknown-batch", 404)
        fields = {"batch": str(document.batch)}
        answer = await theirs.post("/v1/documents", files=FILES, data=fields)
        problem(answer, "unknown-batch", 404)
        assert (await ours.document(document.id)).state is State.WAITING
        assert (await theirs.get("/v1/documents", params=fields)).json()["documents"] == []

    in_process(tmp_path, send)


def test_its_end_is_one_delivery(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        webhook, _ = server.fairlead.webhooks.add("https://example.com/a", customer="acme")
        documents = await client.submit_many([b"a", b"b"])
        for document in documents:
            await client.cancel(document.id)
        kinds = [delivery.kind for delivery in server.fairlead.webhooks.deliveries(webhook.id)]
        assert kinds == ["batch.done", "document.cancelled", "document.cancelled"]

    in_process(tmp_path, send)
