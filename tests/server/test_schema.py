"""The OpenAPI document: correct, checked by schemathesis, and complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from apikit import Served, served, upload
from hypothesis import HealthCheck, Phase, given, settings

from fairlead import Fairlead
from fairlead.server.app import create_inner
from fairlead.server.context import ServerContext
from fairlead.server.descriptions import FIELDS
from fairlead.server.examples import EXAMPLES
from fairlead.server.upload import FIELD_BYTES, RAW_FIELDS

QUERY = {
    *("state", "priority", "customer", "parent", "id_prefix", "reference", "batch", "metadata"),
    *("cursor", "limit", "wait", "after", "include", "follow", "since", "until", "operator"),
    *("name", "urgent", "pipeline", "not_before"),
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with Fairlead(tmp_path_factory.mktemp("schema") / "data") as fairlead:
        context = ServerContext(fairlead)
        yield create_inner(context)
        context.close()


def test_every_operation_has_its_errors_and_examples(app: Any) -> None:
    document = app.openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation.get("description"), where
            answers = operation["responses"]
            assert "500" in answers, where
            if path.startswith("/v1"):
                assert {"400", "401", "403", "429"} <= set(answers), where
                assert operation["security"], where
            for status, answer in answers.items():
                if status >= "400":
                    content = answer["content"]["application/problem+json"]
                    assert content["examples"], where


def test_the_document_names_every_route_of_the_contract(app: Any) -> None:
    paths = app.openapi()["paths"]
    assert set(paths) == {
        *("/v1/documents", "/v1/documents/{document_id}", "/v1/documents/{document_id}/text"),
        *("/v1/batches/{batch_id}", "/v1/batches/{batch_id}/cancel"),
        *(
            "/v1/documents/{document_id}/file",
            "/v1/documents/{document_id}/why",
            "/v1/documents/{document_id}/cancel",
        ),
        *("/v1/documents/{document_id}/retry", "/v1/events", "/v1/audit", "/v1/customers"),
        *("/v1/customers/{name}", "/v1/customers/{name}/pause", "/v1/customers/{name}/resume"),
        *("/v1/customers/{name}/reset", "/v1/customers/{name}/keys"),
        *("/v1/customers/{name}/keys/{key_id}", "/livez", "/readyz", "/metrics"),
        *(
            "/v1/me",
            "/v1/results",
            "/v1/login-links",
            "/v1/policy",
            "/v1/keys",
            "/v1/keys/{key_id}",
        ),
        *("/v1/pipelines", "/v1/usage", "/v1/customers/{name}/standing"),
        *("/v1/customers/{name}/block", "/v1/customers/{name}/unblock"),
        *("/v1/documents/{document_id}/result", "/v1/documents/{document_id}/files/{name}"),
        "/v1/documents/{document_id}/cause",
        *("/v1/jobs/claim", "/v1/jobs/{token}/renew", "/v1/jobs/{token}/finish"),
        *("/v1/jobs/{token}/refuse", "/v1/jobs/{token}/retry", "/v1/jobs/{token}/content"),
        *("/v1/jobs/{token}/text", "/v1/jobs/{token}/markdown", "/v1/jobs/{token}/data"),
        *("/v1/customers/{name}/links", "/v1/customers/{name}/links/{link}"),
        *("/v1/webhooks", "/v1/webhooks/{webhook_id}", "/v1/webhooks/{webhook_id}/test"),
        *("/v1/webhooks/{webhook_id}/deliveries", "/v1/webhooks/deliveries/{delivery_id}/resend"),
    }


def test_operation_ids_are_verbs_with_nouns_and_each_is_given_once(app: Any) -> None:
    ids = [
        operation["operationId"]
        for operations in app.openapi()["paths"].values()
        for operation in operations.values()
    ]
    assert {"submitDocuments", "listDocuments", "getDocument", "cancelDocument"} <= set(ids)
    assert len(set(ids)) == len(ids)
    for id_ in ids:
        assert re.fullmatch("[a-z]+([A-Z][a-z]+)+", id_), id_


def test_parameters_are_those_that_callers_name(app: Any) -> None:
    paths = app.openapi()["paths"]
    listed = {
        parameter["name"]: parameter for parameter in paths["/v1/documents"]["get"]["parameters"]
    }
    assert listed["metadata"]["explode"], "metadata.KEY has names of the caller's own"
    for path, operations in paths.items():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "query":
                    assert parameter["name"] in QUERY, (path, parameter["name"])


def test_the_fields_that_integrators_meet_are_described(app: Any) -> None:
    parts = app.openapi()["components"]["schemas"]
    for name, described in FIELDS.items():
        fields = parts[name]["properties"]
        assert set(fields) == set(described), name
        assert all(field["description"] for field in fields.values())


def test_every_time_has_its_format(app: Any) -> None:
    time_fields = set()
    for name, schema in app.openapi()["components"]["schemas"].items():
        for field, part in schema.get("properties", {}).items():
            if field.endswith("_at") or field in ("not_before", "expected_end"):
                kinds = part.get("anyOf", [part])
                formats = {kind.get("format") for kind in kinds if kind["type"] == "string"}
                assert formats == {"date-time"}, (name, field)
                time_fields.add(field)
    assert {"submitted_at", "finished_at", "not_before", "expected_end"} <= time_fields


def test_a_submission_has_a_form_or_a_body_with_its_fields_in_the_query(app: Any) -> None:
    submit = app.openapi()["paths"]["/v1/documents"]["post"]
    content = submit["requestBody"]["content"]
    assert set(content) == {"multipart/form-data", "application/octet-stream"}
    assert set(content["multipart/form-data"]["schema"]["properties"]) == {"file", *FIELD_BYTES}
    query = {parameter["name"] for parameter in submit["parameters"] if parameter["in"] == "query"}
    assert query == set(RAW_FIELDS)
    assert "password" not in query


def test_whatever_writes_may_find_the_disk_full_and_all_the_server_busy(app: Any) -> None:
    for path, operations in app.openapi()["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            assert "unavailable" in _kinds(answers["503"]), (method, path)
            if method != "get":
                assert "disk-full" in _kinds(answers["507"]), (method, path)


def _kinds(answer: Any) -> set[str]:
    return set(answer["content"]["application/problem+json"]["examples"])


def references(part: Any) -> Iterator[str]:
    """Every $ref in a part of the document."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    if isinstance(part, list):
        for item in part:
            yield from references(item)


def test_every_reference_leads_somewhere(app: Any) -> None:
    document = app.openapi()
    targets = set(references(document))
    assert "#/components/schemas/Documents" in targets
    for reference in targets:
        start, *names = reference.split("/")
        part = document
        for name in names:
            assert name in part, reference
            part = part[name]
        assert start == "#"


def test_every_schema_has_an_example_that_it_allows(app: Any) -> None:
    document = app.openapi()
    for name, schema in document["components"]["schemas"].items():
        whole = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        assert "example" in schema, name
        jsonschema.Draft202012Validator(whole).validate(schema["example"])


def test_every_example_belongs_to_a_schema_and_leaves_nothing_out(app: Any) -> None:
    parts = app.openapi()["components"]["schemas"]
    assert set(EXAMPLES) == set(parts)
    for name, schema in parts.items():
        if schema.get("additionalProperties") is not False and "properties" in schema:
            assert set(EXAMPLES[name]) == set(schema["properties"]), name


def test_media_types_are_those_that_come(app: Any) -> None:
    paths = app.openapi()["paths"]

    def types(path: str, status: str = "200") -> set[str]:
        return set(paths[path]["get"]["responses"][status]["content"])

    text, file = "/v1/documents/{document_id}/text", "/v1/documents/{document_id}/file"
    assert types(text) == {"text/plain", "text/markdown", "application/json"}
    assert types(file) == {"application/octet-stream"}
    assert types(file, "206") == {"application/octet-stream", "multipart/byteranges"}
    assert types("/v1/events") == {"text/event-stream"}
    assert types("/metrics") == {"text/plain"}


def test_if_none_match_is_named_where_304_is(app: Any) -> None:
    for path, operations in app.openapi()["paths"].items():
        for operation in operations.values():
            named = {parameter["name"] for parameter in operation.get("parameters", [])}
            assert ("If-None-Match" in named) == ("304" in operation["responses"]), path


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("who", [pytest.param("customer", marks=pytest.mark.full), "operator"])
def test_what_the_document_says_is_true(who: str, data: Path) -> None:
    with served(data, "--workers", "0") as server:
        client = server.customer("acme") if who == "customer" else server.operator
        upload(server.customer("acme"), b"a document")
        _check_all(server, client.headers["authorization"])


def _check_all(server: Served, authorization: str) -> None:
    import schemathesis  # noqa: PLC0415 (its import takes a second, which only this test is to pay)

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]  # a broken one fails here
        # A stream does not end, results are waited for, and made-up webhooks would call strangers.
        if (operation.method, operation.path) not in (
            ("get", "/v1/events"),
            ("get", "/v1/results"),
            ("post", "/v1/webhooks"),
        ):
            _check(operation, authorization)


def _check(operation: Any, authorization: str) -> None:
    from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: PLC0415

    @settings(
        max_examples=4,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        # Some rules no schema can say: a cursor must come from a page, thresholds must fall.
        case.call_and_validate(
            headers={"Authorization": authorization}, excluded_checks=[positive_data_acceptance]
        )

    check()
