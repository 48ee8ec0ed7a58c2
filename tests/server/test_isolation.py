"""Every route with every role: a table, to which a new route must be added."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi.routing import APIRoute
from inprocess import InProcess, in_process

from fairlead.model.keys import Role
from fairlead.server.app import create_inner

SECRET = "acme-secret.txt"
ROLES = {
    "c": Role.CUSTOMER,
    "s": Role.SERVICE,
    "v": Role.VIEWER,
    "w": Role.WORKER,
    "l": Role.LINK,
    "o": Role.OPERATOR,
}
DOCUMENT = "/v1/documents/{document_id}"
CUSTOMER = "/v1/customers/{name}"
WEBHOOK = "/v1/webhooks/{webhook_id}"
ALLOWED = {
    "everybody, without a key": (
        *("GET /livez", "GET /readyz", "GET /metrics", "GET /docs", "GET /docs/oauth2-redirect"),
        *("GET /login", "POST /login", "POST /language", "GET /static/{version}/{name}"),
        "GET /priority/{link}",
    ),
    "csvwo": ("GET /v1/me",),
    "csvo": (
        *("GET /v1/documents", f"GET {DOCUMENT}", f"GET {DOCUMENT}/text", f"GET {DOCUMENT}/file"),
        *(f"GET {DOCUMENT}/why", f"GET {DOCUMENT}/result", f"GET {DOCUMENT}/files/{{name}}"),
        *("GET /v1/results", "GET /v1/usage", "GET /v1/events", "GET /v1/batches/{batch_id}"),
        *("GET /v1/webhooks", f"GET {WEBHOOK}", f"GET {WEBHOOK}/deliveries"),
    ),
    "cso": (
        *("POST /v1/documents", f"PATCH {DOCUMENT}", f"DELETE {DOCUMENT}"),
        *(f"POST {DOCUMENT}/cancel", f"POST {DOCUMENT}/retry"),
        *("POST /v1/batches/{batch_id}/cancel", "POST /v1/webhooks", f"PATCH {WEBHOOK}"),
        *(f"DELETE {WEBHOOK}", f"POST {WEBHOOK}/test"),
        "POST /v1/webhooks/deliveries/{delivery_id}/resend",
    ),
    "svo": (f"GET {CUSTOMER}/standing", f"GET {CUSTOMER}/links"),
    "so": (f"POST {CUSTOMER}/links", f"DELETE {CUSTOMER}/links/{{link}}"),
    "vo": (
        *("GET /v1/customers", f"GET {CUSTOMER}", f"GET {CUSTOMER}/keys", "GET /v1/keys"),
        *("GET /v1/audit", "GET /v1/policy", "GET /v1/pipelines", f"GET {DOCUMENT}/cause"),
        *("GET /customers", "GET /customer", "GET /customer/links"),
    ),
    "cvo": (
        *("GET /", "GET /priority", "GET /documents", "GET /document/{document_id}"),
        *("GET /texts.zip", "GET /live", "GET /live/session", "POST /logout"),
    ),
    "co": ("GET /documents/{decision}", "POST /documents/{decision}"),
    "o": (
        *("POST /v1/customers", f"PATCH {CUSTOMER}", f"POST {CUSTOMER}/pause"),
        *(f"POST {CUSTOMER}/resume", f"POST {CUSTOMER}/reset", f"POST {CUSTOMER}/block"),
        *(f"POST {CUSTOMER}/unblock", f"POST {CUSTOMER}/keys", "POST /v1/keys", "PUT /v1/policy"),
        *(f"DELETE {CUSTOMER}/keys/{{key_id}}", "DELETE /v1/keys/{key_id}", "POST /v1/login-links"),
        *(
            "GET /customer/set",
            "POST /customer/set",
            "POST /customer/link",
            "POST /customer/unlink",
        ),
        *("GET /customer/{decision}", "POST /customer/{decision}", f"DELETE {CUSTOMER}"),
    ),
}
"""Routes by the roles that may request them. Others get 403, and 401 without a key."""
JOBS = "wo"
"""The roles that may request routes under /v1/jobs."""
STREAMS = ("GET /v1/events", "GET /live")
"""Responses that do not end; only refusals are checked."""


def table(server: InProcess) -> dict[str, str]:
    """The roles of each route, destructive routes last."""
    known = {address: roles for roles, rows in ALLOWED.items() for address in rows}
    jobs = {address: JOBS for address in addresses(server) if " /v1/jobs/" in address}
    return jobs | known


def addresses(server: InProcess) -> list[str]:
    return [
        f"{method} {route.path}"
        for route in create_inner(server.context).routes
        if isinstance(route, APIRoute)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]


FOREIGN = ("document_id", "webhook_id", "batch_id", "delivery_id")
"""Path parameters that name a resource of a customer. Those of other customers are unknown."""


class Site:
    """A server with all kinds of resources of acme, and a key of each role.

    The key of a customer and the link belong to another customer.
    """

    def __init__(self, server: InProcess) -> None:
        fairlead = server.fairlead
        add = fairlead.keys.add
        files = [(b"hello", SECRET), (b"hello", "another-" + SECRET)]
        self.server = server
        self.document, _ = fairlead.submit_many(
            "acme", files, metadata={"order": 471}, reference="A-17"
        )
        self.webhook, _ = fairlead.webhooks.add("https://example.com/a", customer="acme")
        self.known = {
            "document_id": self.document.id,
            "webhook_id": self.webhook.id,
            "batch_id": self.document.batch or "",
            "delivery_id": fairlead.webhooks.test(self.webhook.id).id,
            "key_id": add("acme")[1].id,
            "link": fairlead.customers.link("acme").id,
            "name": "acme",
        }
        fairlead.customers.add("globex")
        self.keys = {
            Role.CUSTOMER: add("globex")[0],
            Role.SERVICE: add(service="shop")[0],
            Role.VIEWER: add(viewer="eyes")[0],
            Role.WORKER: add(worker="gpu")[0],
            Role.LINK: fairlead.customers.link("globex").path.rpartition("/")[2],
            Role.OPERATOR: add()[0],
        }

    async def ask(self, role: Role | None, address: str) -> tuple[int, str]:
        """The answer to a request about acme, its document and its webhook."""
        method, _, path = address.partition(" ")
        known = self.known | {"decision": "pause" if "/customer/" in path else "cancel"}
        path = re.sub(r"{(\w+)}", lambda match: known.get(match[1], "abcdefghijkl"), path)
        client = self.server.http(None if role is None else self.keys[role])
        is_page = not path.startswith("/v1/")
        params = {"name": "acme"} if path.startswith("/customer") and method == "GET" else None
        body: dict[str, str] | None = None if is_page or method in ("GET", "DELETE") else {}
        answer = await client.request(method, path, params=params, json=body)
        return answer.status_code, answer.text


def test_every_address_is_in_the_table(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        assert set(addresses(server)) == set(table(server)), "give a new address its row"

    in_process(tmp_path, look)


def test_every_address_answers_the_roles_of_its_row_and_no_others(tmp_path: Path) -> None:
    async def ask(server: InProcess) -> None:
        site = Site(server)
        before = server.fairlead.store.last_event()
        for address, roles in table(server).items():
            if "everybody" in roles:
                continue
            status, _ = await site.ask(None, address)
            assert status == 401, address
            for letter, role in ROLES.items():
                if letter not in roles:
                    status, text = await site.ask(role, address)
                    assert status == 403, (address, role, text)
                    assert SECRET not in text, (address, role)
        assert server.fairlead.store.last_event() == before, "nothing has changed"
        for address, roles in table(server).items():
            for letter in roles if "everybody" not in roles and address not in STREAMS else "":
                status, text = await site.ask(ROLES[letter], address)
                assert status not in (401, 403, 500), (address, ROLES[letter], text)

    in_process(tmp_path, ask)


def test_a_customer_finds_nothing_of_another_by_any_filter(tmp_path: Path) -> None:
    async def ask(server: InProcess) -> None:
        site = Site(server)
        id_, batch = site.document.id, site.known["batch_id"]
        server.fairlead.submit("acme", b"hello", name=SECRET, pipeline="invoices")
        filters: list[tuple[str, dict[str, str]]] = [
            *(("/v1/documents", {"batch": batch}), ("/v1/documents", {"reference": "A-17"})),
            *(("/v1/documents", {"metadata.order": "471"}), ("/v1/documents", {"parent": id_})),
            *(("/v1/documents", {"cursor": id_}), ("/v1/documents", {"id_prefix": id_})),
            *((f"/v1/{name}", {"customer": "acme"}) for name in ("documents", "results", "usage")),
            *(("/v1/events", {"customer": "acme", "follow": "false"}), ("/texts.zip", {"id": id_})),
            *((path, {"pipeline": "invoices"}) for path in ("/v1/documents", "/documents")),
            *(("/documents", {"customer": "acme"}), ("/documents", {"batch": batch})),
            *(("/documents", {"reference": "A-17"}), ("/documents", {"metadata": "order=471"})),
            *(("/documents", {"before": id_}), ("/priority", {"customer": "acme"})),
            *(("/documents/cancel", {"id": id_}), ("/documents/cancel", {"customer": "acme"})),
            ("/documents/cancel", {"all": "true", "batch": batch}),
        ]
        own, operator = (server.http(site.keys[role]) for role in (Role.CUSTOMER, Role.OPERATOR))
        for path, params in filters:
            answer = await own.get(path, params=params)
            assert answer.status_code < 500, (path, params)
            for word in (SECRET, '"acme"', ">acme<"):
                assert word not in answer.text, (path, params, answer.text)
            if params != {"parent": id_} and not {"cursor", "before"} & params.keys():
                known = await operator.get(path, params=params)
                assert known.is_success, (path, params, known.text)
                assert known.content != answer.content, "an operator does find it"
        form = {"all": "1", "customer": "acme", "until": "9e9"}
        await own.post("/documents/cancel", data=form)
        await own.post("/documents/cancel", data={"id": id_})
        assert server.fairlead.document(id_) == site.document

    in_process(tmp_path, ask, {"pipelines": {"invoices": {}}})


def test_a_customer_sees_and_changes_nothing_of_another(tmp_path: Path) -> None:
    async def ask(server: InProcess) -> None:
        site = Site(server)
        for address, roles in table(server).items():
            if "c" in roles and "everybody" not in roles and address not in STREAMS:
                status, text = await site.ask(Role.CUSTOMER, address)
                assert SECRET not in text, address
                assert "acme" not in text, (address, text)
                is_foreign = any(f"{{{name}}}" in address for name in FOREIGN)
                assert status == 404 or not is_foreign, (address, text)
        assert server.fairlead.document(site.document.id) == site.document
        batch = server.fairlead.batches.show(site.known["batch_id"])
        assert (batch.waiting, batch.cancelled) == (2, 0)

    in_process(tmp_path, ask)
