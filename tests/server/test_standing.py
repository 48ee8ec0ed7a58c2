"""/v1/me, /v1/customers/{name}/standing and /v1/usage: a customer sees only its own numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from apikit import Served, problem, served
from resultkit import add_done, add_failed

from fairlead import Client, Fairlead


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without workers: acme has two results, a failure and two pending documents."""
    with served(tmp_path_factory.mktemp("served") / "data", "--workers", "0") as running:
        with Fairlead(running.data) as fairlead:
            add_done(fairlead, "acme", ["one", "two"])
            add_failed(fairlead, "acme")
            add_done(fairlead, "bolt", ["secret"])
            fairlead.submit_many("acme", [b"waits", b"waits too"])
            fairlead.customers.set("acme", pending_cap=50)
        yield running


def test_a_customer_asks_where_it_stands(server: Served) -> None:
    me = server.customer("acme").get("/v1/me").json()
    assert (me["role"], me["name"], me["customer"]) == ("customer", "acme", "acme")
    assert (me["count"], me["next_priority"]) == (-4, 3), "of the last document, of the next one"
    assert (me["pending"], me["processing"]) == (2, 0)
    assert me["resets_at"] is not None
    assert me["expected_end"] is None, "nobody works"
    assert me["limits"]["pending_cap"] == 50
    assert me["limits"]["max_upload_files"] > 0
    assert (me["usage"]["documents"], me["usage"]["failures"]) == (5, 1)
    newcomer = server.customer("newcomer").get("/v1/me").json()
    assert (newcomer["count"], newcomer["next_priority"], newcomer["pending"]) == (0, 1, 0)
    assert newcomer["usage"]["documents"] == 0


def test_other_keys_have_a_role(server: Served) -> None:
    me = server.operator.get("/v1/me").json()
    assert (me["role"], me["customer"]) == ("operator", None)
    assert "count" not in me
    assert "name" in me


def test_operators_see_the_standing_of_each_customer(server: Served) -> None:
    standing = server.operator.get("/v1/customers/acme/standing").json()
    own = server.customer("acme").get("/v1/me").json()
    assert {name: own[name] for name in standing} == standing
    problem(server.operator.get("/v1/customers/nobody/standing"), "unknown-customer", 404)
    with Fairlead(server.data) as fairlead:
        service = server.client(fairlead.keys.add(service="shop")[0])
    assert service.get("/v1/customers/acme/standing").json()["pending"] == 2
    assert service.get("/v1/me").json()["name"] == "shop"
    problem(server.customer("bolt").get("/v1/customers/acme/standing"), "forbidden", 403)
    problem(server.customer("bolt").get("/v1/customers/bolt/standing"), "forbidden", 403)


def test_usage_is_json_or_csv_and_a_customer_sees_its_own(server: Served) -> None:
    everything = server.operator.get("/v1/usage").json()["usage"]
    assert {row["customer"]: row["documents"] for row in everything} == {"acme": 5, "bolt": 1}
    bolt = server.customer("bolt")
    assert bolt.get("/v1/usage").json()["usage"] == [
        row for row in everything if row["customer"] == "bolt"
    ]
    problem(bolt.get("/v1/usage?customer=acme"), "forbidden", 403)
    answer = server.operator.get("/v1/usage?customer=acme", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["customer"], row["documents"], row["failures"]) == ("acme", "5", "1")
    assert server.operator.get("/v1/usage?since=2999-01-01").json() == {"usage": []}
    problem(server.operator.get("/v1/usage?since=yesterday"), "invalid-request", 400)
    problem(server.operator.get("/v1/usage?since=2026-99-99"), "invalid-request", 400)
    problem(
        server.operator.get("/v1/usage", headers={"Accept": "image/png"}), "not-acceptable", 406
    )


def test_the_client_has_the_same(server: Served) -> None:
    with Client(server.url, server.key("acme")) as acme:
        assert acme.me().next_priority == 3
        assert [row.documents for row in acme.customers.usage()] == [5]
    with Client(server.url, (server.data / "operator.key").read_text()) as operator:
        assert operator.me().is_operator
        assert operator.customers.standing("acme").pending == 2
        assert [row.customer for row in operator.customers.usage("bolt")] == ["bolt"]
