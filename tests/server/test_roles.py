"""Roles of keys: permissions for every route of the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from apikit import problem
from dashkit import tree
from inprocess import InProcess, in_process

from fairlead import Fairlead
from fairlead.errors import IdempotencyConflict, NotAllowed, UsageError
from fairlead.model.keys import Role
from fairlead.server.app import create_inner
from fairlead.server.context import ServerContext

SECRET = "acme-secret.txt"
STREAMS = ("/v1/events",)
"""Responses that do not end."""
ANYBODY = ("/livez", "/readyz", "/metrics")
SERVICE = (
    *("/v1/documents", "/v1/batches", "/v1/results", "/v1/events", "/v1/webhooks", "/v1/me"),
    "/v1/usage",
)
TRACEBACKS = "/cause"
"""A path below a document that shows internals, to operators only."""
WORKER = ("/v1/jobs", "/v1/me")


def routes(data: Path) -> list[tuple[str, str]]:
    """Method and path of each operation that takes a key."""
    with Fairlead(data) as fairlead:
        document = create_inner(ServerContext(fairlead)).openapi()
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/v1/")
    ]


class Site:
    """A server with a document of acme, and a key of each role."""

    def __init__(self, server: InProcess) -> None:
        self.server, add = server, server.fairlead.keys.add
        self.keys = {
            Role.CUSTOMER: add("globex")[0],
            Role.SERVICE: add(service="shop")[0],
            Role.VIEWER: add(viewer="eyes")[0],
            Role.WORKER: add(worker="gpu")[0],
            Role.OPERATOR: add()[0],
        }
        self.document = server.fairlead.submit("acme", b"hello", name=SECRET)
        self.webhook, _ = server.fairlead.webhooks.add("https://example.com/a", customer="acme")

    async def ask(self, role: Role | None, method: str, path: str) -> Any:
        """The answer to a request about acme and its document."""
        known = {"document_id": self.document.id, "webhook_id": self.webhook.id, "name": "acme"}
        path = re.sub(r"{(\w+)}", lambda match: known.get(match[1], "abcdefghijkl"), path)
        key = None if role is None else self.keys[role]
        body: dict[str, Any] | None = {} if method in ("PATCH", "PUT") else None
        return await self.server.http(key).request(method, path, json=body)


def at_site(data: Path, test: Callable[[Site], Awaitable[None]]) -> None:
    async def run(server: InProcess) -> None:
        await test(Site(server))

    in_process(data, run)


def test_without_a_key_no_route_answers(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        for method, path in routes(tmp_path / "other"):
            problem(await site.ask(None, method, path), "unauthorised", 401)

    at_site(tmp_path, ask)


def test_a_viewer_reads_everything_and_changes_nothing(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        before = site.server.fairlead.store.last_event()
        for method, path in routes(tmp_path / "other"):
            if method != "GET" or path.startswith("/v1/jobs"):
                problem(await site.ask(Role.VIEWER, method, path), "forbidden", 403)
            elif path not in STREAMS:
                answer = await site.ask(Role.VIEWER, method, path)
                assert answer.status_code not in (401, 403), (path, answer.text)
        assert site.server.fairlead.store.last_event() == before

    at_site(tmp_path, ask)


def test_a_worker_reads_nothing_but_its_jobs(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        for method, path in routes(tmp_path / "other"):
            if not path.startswith(WORKER):
                problem(await site.ask(Role.WORKER, method, path), "forbidden", 403)

    at_site(tmp_path, ask)


def test_a_service_submits_and_reads_and_administers_nothing(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        for method, path in routes(tmp_path / "other"):
            is_own = path.startswith(SERVICE) and not path.endswith(TRACEBACKS)
            if is_own or "/standing" in path or "/links" in path:
                if path not in STREAMS:
                    answer = await site.ask(Role.SERVICE, method, path)
                    assert answer.status_code not in (401, 403), (path, answer.text)
            else:
                problem(await site.ask(Role.SERVICE, method, path), "forbidden", 403)

    at_site(tmp_path, ask)


@pytest.mark.parametrize("role", [Role.SERVICE, Role.WORKER])
def test_a_key_that_opens_no_page_does_not_log_in(tmp_path: Path, role: Role) -> None:
    async def ask(site: Site) -> None:
        client = site.server.http(None)
        answer = await client.post("/login", data={"key": site.keys[role]})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers, "its session could not even log out"
        assert "does not open the dashboard" in answer.text

    at_site(tmp_path, ask)


def test_a_customer_sees_nothing_of_another(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        before = site.server.fairlead.document(site.document.id)
        for method, path in routes(tmp_path / "other"):
            if path in STREAMS:
                continue
            answer = await site.ask(Role.CUSTOMER, method, path)
            assert SECRET not in answer.text, path
            assert "acme" not in answer.text, (path, answer.text)
            if "{" in path:
                assert answer.status_code in (400, 403, 404), (path, answer.text)
        assert site.server.fairlead.document(site.document.id) == before

    at_site(tmp_path, ask)


@pytest.mark.parametrize("path", ["/v1/documents", "/v1/events", "/v1/results"])
def test_a_customer_that_names_another_is_refused(tmp_path: Path, path: str) -> None:
    async def ask(site: Site) -> None:
        client = site.server.http(site.keys[Role.CUSTOMER])
        problem(await client.get(path, params={"customer": "acme"}), "forbidden", 403)

    at_site(tmp_path, ask)


# --- submitting for many customers ---


def test_a_service_submits_for_the_customers_that_it_names(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add(service="shop")[0])
        for name in ("acme", "globex"):
            document = await client.submit(b"a", customer=name)
            assert (document.customer, document.count) == (name, 0)
            assert (await client.document(document.id)).customer == name
        assert len((await client.documents()).items) == 2
        assert len((await client.documents(customer="acme")).items) == 1
        with pytest.raises(UsageError, match="customer"):
            await client.submit(b"a")

    in_process(tmp_path, send)


def test_an_operator_may_submit_as_a_customer(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add()[0])
        assert (await client.submit(b"a", customer="acme")).customer == "acme"
        with pytest.raises(UsageError):
            await client.submit(b"a")

    in_process(tmp_path, send)


def test_strict_customers_hold_for_services(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.http(server.fairlead.keys.add(service="shop")[0])
        fields = {"customer": "nobody"}
        answer = await client.post("/v1/documents", files={"file": b"a"}, data=fields)
        problem(answer, "unknown-customer", 404)

    in_process(tmp_path, send, {"strict_customers": True})


def test_a_customers_key_submits_for_no_other(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add("acme")[0])
        assert (await client.submit(b"a", customer="acme")).customer == "acme"
        with pytest.raises(NotAllowed):
            await client.submit(b"a", customer="globex")

    in_process(tmp_path, send)


def test_the_customer_belongs_to_the_idempotency_key_of_a_service(tmp_path: Path) -> None:
    async def send(server: InProcess) -> None:
        client = server.client(server.fairlead.keys.add(service="shop")[0])
        other = server.client(server.fairlead.keys.add(service="bar")[0])
        first = await client.submit(b"a", customer="acme", idempotency_key="k")
        assert await client.submit(b"a", customer="acme", idempotency_key="k") == first
        with pytest.raises(IdempotencyConflict):
            await client.submit(b"a", customer="globex", idempotency_key="k")
        theirs = await other.submit(b"a", customer="globex", idempotency_key="k")
        assert theirs.id != first.id

    in_process(tmp_path, send)


# --- ends ---


def test_a_key_is_refused_from_its_end_on(tmp_path: Path) -> None:
    async def ask(server: InProcess) -> None:
        client = server.http(server.fairlead.keys.add("acme", expires=60)[0])
        assert (await client.get("/v1/documents")).status_code == 200
        now = server.fairlead.clock()
        server.fairlead.clock = lambda: now + 61
        problem(await client.get("/v1/documents"), "unauthorised", 401)

    in_process(tmp_path, ask)


def test_keys_are_made_over_http(tmp_path: Path) -> None:
    async def ask(server: InProcess) -> None:
        operator = server.client(server.fairlead.keys.add()[0])
        for role in ("service", "viewer", "worker"):
            _, key = await operator.keys.add(**{role: "name of it"}, expires=60)
            assert (key.role, key.name, key.customer) == (role, "name of it", None)
            assert key.expires_at is not None
            assert not key.operator
        listed = await operator.keys.list()
        assert [key.role for key in listed] == ["operator", "service", "viewer", "worker"]
        assert [key.id for key in listed] == [key.id for key in server.fairlead.keys.list()]

    in_process(tmp_path, ask)


def test_a_key_has_one_owner(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead, pytest.raises(UsageError, match="one owner"):
        fairlead.keys.add("acme", service="shop")


def test_the_dashboard_offers_a_viewer_no_changes(tmp_path: Path) -> None:
    async def look(site: Site) -> None:
        for role, has_buttons in ((Role.VIEWER, False), (Role.OPERATOR, True)):
            client = site.server.http(site.keys[role])
            for path in ("/documents", f"/document/{site.document.id}", "/customer?name=acme"):
                page = await client.get(path)
                assert page.status_code == 200, path
                assert SECRET in page.text or "acme" in page.text
                assert ("data-confirm" in page.text) is has_buttons, path
                assert ("checkbox" in page.text) is (has_buttons and path == "/documents"), path
        viewer = site.server.http(site.keys[Role.VIEWER])
        answer = await viewer.post("/documents/cancel", data={"id": site.document.id})
        assert answer.status_code == 403
        for path in ("/documents/cancel", "/customer/pause?name=acme", "/customer/set?name=acme"):
            assert (await viewer.get(path)).status_code == 403, path

    at_site(tmp_path, look)


def test_a_refusal_names_the_role_of_the_key(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        for role in (Role.SERVICE, Role.CUSTOMER):
            client = site.server.http(site.keys[role])
            answer = await client.get(f"/v1/documents/{site.document.id}/cause")
            assert f"this one is a {role}'s" in problem(answer, "forbidden", 403)["detail"]

    at_site(tmp_path, ask)


def test_a_blocked_customer_is_told_so(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        site.server.fairlead.customers.block("globex", reason="the invoice of May is open")
        client = site.server.http(site.keys[Role.CUSTOMER])
        assert (await client.get("/v1/me")).json()["blocked"] == "the invoice of May is open"
        assert "the invoice of May is open" in (await client.get("/priority")).text
        site.server.fairlead.customers.unblock("globex")
        assert (await client.get("/v1/me")).json()["blocked"] is None

    at_site(tmp_path, ask)


def test_the_pages_and_the_standing_show_the_same_count(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        site.server.fairlead.submit_many("globex", [b"a", b"b", b"c"])
        client = site.server.http(site.keys[Role.CUSTOMER])
        standing = (await client.get("/v1/me")).json()
        assert (standing["count"], standing["next_priority"]) == (-2, 2)
        for path in ("/", "/priority"):
            page = tree(await client.get(path))
            count = page.xpath("//dt[text()='Count']/following-sibling::dd")[0].text_content()
            assert count.strip().replace("−", "-") == "-2", path

    at_site(tmp_path, ask)
