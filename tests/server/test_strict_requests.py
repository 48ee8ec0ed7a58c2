"""Requests that must be refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from apikit import served
from fastapi.routing import APIRoute

from fairlead.errors import InvalidCustomer, InvalidName
from fairlead.model.names import BIDI_CONTROLS, check_customer, check_name
from fairlead.server.app import API

SUBMIT = ("POST", "/v1/documents")


@pytest.mark.parametrize("control", BIDI_CONTROLS, ids=ascii)
def test_names_with_bidi_controls_are_refused(control: str) -> None:
    """Regression: names with bidi characters were accepted."""
    with pytest.raises(InvalidName):
        check_name(f"invoice{control}fdp.exe")
    with pytest.raises(InvalidCustomer):
        check_customer(f"ac{control}me")


@pytest.mark.services
def test_two_authorization_headers_are_refused(tmp_path: Path) -> None:
    """Regression: two Authorization headers were accepted."""
    with served(tmp_path, "--workers", "0") as server:
        header = ("Authorization", f"Bearer {server.key('acme')}")
        with server.client("none") as client:
            client.headers.pop("authorization", None)
            assert client.get("/v1/documents", headers=[header]).status_code == 200
            assert client.get("/v1/documents", headers=[header, header]).status_code == 401


@pytest.mark.services
def test_an_unknown_query_parameter_is_named(tmp_path: Path) -> None:
    """Regression: `?status=failed` listed everything with 200."""
    with served(tmp_path, "--workers", "0") as server:
        client = server.customer("acme")
        answer = client.get("/v1/documents?status=failed")
        assert answer.status_code == 400
        assert "'status'" in answer.json()["detail"]
        assert client.get("/v1/documents?state=failed&limit=5").status_code == 200


@pytest.mark.services
def test_every_route_refuses_unknown_query_parameters(tmp_path: Path) -> None:
    """Regression: only the routes that read documents did."""
    routes = [
        (method, re.sub(r"{\w+}", "x", route.path.replace("{name}", "acme")))
        for module in API
        for route in module.router.routes
        if isinstance(route, APIRoute) and route.path.startswith("/v1/")
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]
    with served(tmp_path, "--workers", "0") as server:
        customer = server.customer("acme")
        for method, path in routes:
            client = customer if (method, path) == SUBMIT else server.operator
            with client.stream(method, path, params={"limitt": 5}) as answer:  # some never end
                assert answer.status_code == 400, (method, path)
                assert "'limitt'" in answer.read().decode(), (method, path)
    assert len(routes) > 25


@pytest.mark.services
def test_thresholds_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    """Regression: `[false]` was taken as `[0]`."""
    with served(tmp_path, "--workers", "0") as server:
        server.key("acme")
        answer = server.operator.patch("/v1/customers/acme", json={"thresholds": [False]})
        assert answer.status_code == 400
        assert "thresholds" in answer.json()["detail"]
        assert server.operator.get("/v1/customers/acme").json()["thresholds"] is None
