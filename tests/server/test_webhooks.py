"""Webhooks over HTTP: a real receiver on loopback; customers see only their own webhooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from apikit import Served, problem, served, upload
from standardwebhooks import Webhook

NOBODY = "http://127.0.0.1:9/hook"
"""A URL where no server listens."""
Received = Queue[tuple[dict[str, str], bytes]]


@contextmanager
def receiver() -> Iterator[tuple[str, Received]]:
    """A server that accepts all deliveries, on a free port of loopback."""
    received: Received = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def hooked(data: Path) -> Iterator[Served]:
    """A server that may deliver to loopback."""
    data.mkdir()
    (data / "fairlead.toml").write_text('webhook_networks = ["127.0.0.0/8"]\n')
    with served(data, "--workers", "1") as server:
        yield server


def test_a_receiver_is_told_and_can_check_who_tells(hooked: Served) -> None:
    acme = hooked.customer("acme")
    with receiver() as (url, received):
        answer = acme.post("/v1/webhooks", json={"url": url})
        assert answer.status_code == 201
        webhook = answer.json()
        id_ = upload(acme, b"a letter").json()["id"]
        headers, body = received.get(timeout=60)
        Webhook(webhook["secret"]).verify(body, headers)
        payload = json.loads(body)
        assert (payload["type"], payload["data"]["id"]) == ("document.done", id_)
        assert "secret" not in acme.get(f"/v1/webhooks/{webhook['id']}").json()
        test = acme.post(f"/v1/webhooks/{webhook['id']}/test")
        assert test.status_code == 202
        received.get(timeout=60)
    listed = acme.get(f"/v1/webhooks/{webhook['id']}/deliveries").json()["deliveries"]
    assert [delivery["kind"] for delivery in listed] == ["webhook.test", "document.done"]


def test_a_customer_never_sees_anothers_webhooks(hooked: Served) -> None:
    acme, globex = hooked.customer("acme"), hooked.customer("globex")
    id_ = acme.post("/v1/webhooks", json={"url": NOBODY}).json()["id"]
    delivery = acme.post(f"/v1/webhooks/{id_}/test").json()["id"]
    assert globex.get("/v1/webhooks").json() == {"webhooks": []}
    for method, path in (
        ("GET", f"/v1/webhooks/{id_}"),
        ("PATCH", f"/v1/webhooks/{id_}"),
        ("DELETE", f"/v1/webhooks/{id_}"),
        ("POST", f"/v1/webhooks/{id_}/test"),
        ("GET", f"/v1/webhooks/{id_}/deliveries"),
        ("POST", f"/v1/webhooks/deliveries/{delivery}/resend"),
    ):
        body = {"enabled": False} if method == "PATCH" else None
        answer = globex.request(method, path, json=body)
        assert answer.status_code == 404, path
        assert answer.json()["type"].endswith("unknown-webhook")
    assert hooked.operator.get(f"/v1/webhooks/{id_}").json()["enabled"] is True


def test_a_cursor_belongs_to_the_webhook_whose_page_gave_it(hooked: Served) -> None:
    acme = hooked.customer("acme")
    first, other = (acme.post("/v1/webhooks", json={"url": NOBODY}).json()["id"] for _ in "ab")
    delivery_ids = [acme.post(f"/v1/webhooks/{first}/test").json()["id"] for _ in range(3)]
    path = f"/v1/webhooks/{first}/deliveries"
    page = acme.get(path, params={"limit": 2}).json()
    assert page["next"] == delivery_ids[1]
    rest = acme.get(path, params={"cursor": page["next"]}).json()
    assert [delivery["id"] for delivery in rest["deliveries"]] == delivery_ids[:1]
    for id_, cursor in ((first, "tampered"), (other, delivery_ids[1])):
        answer = acme.get(f"/v1/webhooks/{id_}/deliveries", params={"cursor": cursor})
        problem(answer, "invalid-cursor", 400)


def test_an_operator_makes_one_for_a_customer(hooked: Served) -> None:
    hooked.customer("acme")
    url = NOBODY
    created = hooked.operator.post("/v1/webhooks", json={"url": url, "customer": "acme"})
    assert created.status_code == 201
    assert created.json()["customer"] == "acme"
    unknown = hooked.operator.post("/v1/webhooks", json={"url": url, "customer": "nobody"})
    assert unknown.status_code == 404


def test_one_webhook_of_an_operator_is_told_of_all_customers(hooked: Served) -> None:
    acme, globex = hooked.customer("acme"), hooked.customer("globex")
    with receiver() as (url, received):
        webhook = hooked.operator.post("/v1/webhooks", json={"url": url}).json()
        assert webhook["customer"] is None
        ids = {upload(client, b"a letter").json()["id"]: client for client in (acme, globex)}
        documents = [json.loads(received.get(timeout=60)[1])["data"] for _ in ids]
    assert {document["id"]: document["customer"] for document in documents} == dict(
        zip(ids, ("acme", "globex"), strict=True)
    )
    assert acme.get("/v1/webhooks").json() == {"webhooks": []}
    problem(acme.get(f"/v1/webhooks/{webhook['id']}"), "unknown-webhook", 404)
    problem(acme.delete(f"/v1/webhooks/{webhook['id']}"), "unknown-webhook", 404)
    problem(acme.post("/v1/webhooks", json={"url": NOBODY, "customer": "globex"}), "forbidden", 403)


def test_a_webhook_is_changed_and_forgotten(hooked: Served) -> None:
    acme = hooked.customer("acme")
    id_ = acme.post("/v1/webhooks", json={"url": NOBODY}).json()["id"]
    changed = acme.patch(f"/v1/webhooks/{id_}", json={"enabled": False, "kinds": ["document.done"]})
    assert changed.json()["kinds"] == ["document.done"]
    assert changed.json()["enabled"] is False
    assert changed.json()["url"] == NOBODY
    assert acme.delete(f"/v1/webhooks/{id_}").status_code == 204
    assert acme.get(f"/v1/webhooks/{id_}").status_code == 404


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "https://user:secret@example.com/",
        "http://",
        "nonsense",
    ],
)
def test_a_dangerous_address_is_refused(data: Path, url: str, server: Served) -> None:
    answer = server.customer("acme").post("/v1/webhooks", json={"url": url})
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("application/problem+json")
