"""A client that knows nothing but the OpenAPI document, as a generated one would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema


def _is_time(text: object) -> bool:
    return not isinstance(text, str) or datetime.fromisoformat(text).tzinfo is not None


FORMATS = jsonschema.FormatChecker(formats=())
"""Formats that are checked; jsonschema has no `date-time` without another package."""
FORMATS.checks("date-time", raises=ValueError)(_is_time)


@dataclass
class OpenAPIClient:
    """Calls operations by their ids, and checks that answers are as the document says."""

    http: httpx.AsyncClient
    document: dict[str, Any]

    @classmethod
    async def connect(cls, http: httpx.AsyncClient) -> OpenAPIClient:
        return cls(http, (await http.get("/openapi.json")).json())

    async def call(
        self, operation_id: str, body: Any = None, *, accept: str | None = None, **named: Any
    ) -> Any:
        """The content of the answer: parsed JSON, a list of it for NDJSON, or a text.

        A body of bytes is sent as it is; otherwise it is what the operation takes.
        """
        answer = await self.answer(operation_id, body, accept=accept, **named)
        assert answer.is_success, (operation_id, answer.text)
        return _parsed(answer)

    async def answer(
        self, operation_id: str, body: Any = None, *, accept: str | None = None, **named: Any
    ) -> httpx.Response:
        method, path, operation = self._operation(operation_id)
        request: dict[str, Any] = {"params": {}, "headers": {}}
        if accept is not None:
            request["headers"]["Accept"] = accept
        declared = {parameter["name"]: parameter["in"] for parameter in operation["parameters"]}
        for name, value in named.items():
            if declared[name] == "path":
                path = path.replace(f"{{{name}}}", quote(value, safe=""))
            elif isinstance(value, dict):  # style form, explode: its fields are the parameters
                request["params"] |= value
            else:
                request["params" if declared[name] == "query" else "headers"][name] = value
        if body is not None:
            media_types = operation["requestBody"]["content"]
            request |= _request_body(body, media_types, request["headers"])
        answer = await self.http.request(method, path, **request)
        self._check(operation, answer)
        return answer

    def _operation(self, operation_id: str) -> tuple[str, str, dict[str, Any]]:
        for path, operations in self.document["paths"].items():
            for method, operation in operations.items():
                if operation["operationId"] == operation_id:
                    return method.upper(), path, {"parameters": [], **operation}
        raise LookupError(f"no operation {operation_id}")

    def _check(self, operation: dict[str, Any], answer: httpx.Response) -> None:
        described = operation["responses"][str(answer.status_code)]
        for name, header in described["headers"].items():
            if self._resolved(header).get("required"):
                self._validate(self._resolved(header)["schema"], answer.headers[name])
        if "content" not in described:
            assert not answer.content
            return
        schema = described["content"][_media_type(answer)].get("schema", {})
        parsed = _parsed(answer)
        for value in parsed if _media_type(answer) == "application/x-ndjson" else [parsed]:
            self._validate(schema, value)

    def _resolved(self, part: dict[str, Any]) -> dict[str, Any]:
        for name in part.get("$ref", "#").split("/")[1:]:
            part = (self.document if name == "components" else part)[name]
        return part

    def _validate(self, schema: dict[str, Any], value: Any) -> None:
        whole = {**schema, "components": self.document["components"]}
        jsonschema.Draft202012Validator(whole, format_checker=FORMATS).validate(value)


def _request_body(
    body: Any, media_types: dict[str, Any], headers: dict[str, str]
) -> dict[str, Any]:
    if isinstance(body, bytes):
        assert "application/octet-stream" in media_types
        headers["Content-Type"] = "application/octet-stream"
        return {"content": body}
    if "multipart/form-data" in media_types:
        fields = dict(body)
        files = [("file", file) for file in fields.pop("file")]
        assert {"file", *fields} <= set(media_types["multipart/form-data"]["schema"]["properties"])
        return {"files": files, "data": fields}
    assert "application/json" in media_types
    return {"json": body}


def _media_type(answer: httpx.Response) -> str:
    return answer.headers["content-type"].partition(";")[0]


def _parsed(answer: httpx.Response) -> Any:
    if _media_type(answer).endswith("json") and "ndjson" not in _media_type(answer):
        return answer.json()
    if _media_type(answer) == "application/x-ndjson":
        return [json.loads(line) for line in answer.text.splitlines()]
    return answer.text
