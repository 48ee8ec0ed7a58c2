"""The OpenAPI schema of a submission: a form, or the bytes of one document."""

from __future__ import annotations

from typing import Any

from fairlead.model.names import LONGEST_NAME
from fairlead.server import schemas
from fairlead.server.upload import RAW_FIELDS

_FIELDS: dict[str, dict[str, Any]] = {
    "file": {
        "type": "array",
        "items": {"type": "string", "format": "binary"},
        "minItems": 1,
        "description": "one or more documents, accepted or refused together",
    },
    "customer": {
        "type": "string",
        "maxLength": 200,
        "description": "whose documents they are; with a service's or an operator's key",
    },
    "urgent": {
        "type": "string",
        "enum": ["true", "false"],
        "description": "before the other documents of the same customer",
    },
    "password": {
        "type": "string",
        "maxLength": 1000,
        "description": "opens encrypted documents; kept until they have ended",
    },
    "pipeline": {
        "type": "string",
        "pattern": "^[A-Za-z0-9_-]{1,64}$",
        "description": "names the steps that process the documents; `default` if left out",
    },
    "metadata": {
        "type": "string",
        "contentMediaType": "application/json",
        "description": "a JSON object of up to 4 kB, kept with the documents",
    },
    "reference": {
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
        "description": "your own id of the documents",
    },
    "batch": {
        "type": "string",
        "maxLength": 100,
        "description": "the id of a batch, to which the documents are added",
    },
    "not_before": {
        "type": "string",
        "description": "the earliest start: a time, a date, or a delay such as 90 (seconds) or 2h",
    },
}
_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": _FIELDS,
    "additionalProperties": False,
}
_NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_NAME,
    "description": "the name of the document that is the body; required then",
}
_IDEMPOTENCY_KEY = schemas.header(
    "Idempotency-Key", "sent again with the same body, the same documents come back"
) | {"schema": {"type": "string", "pattern": "^[!-~]{1,255}$"}}


def _query_parameter(name: str) -> dict[str, Any]:
    schema = dict((_FIELDS | {"name": _NAME})[name])
    description = f"without a form: {schema.pop('description')}"
    return {"name": name, "in": "query", "description": description, "schema": schema}


SUBMISSION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": _FORM}, **schemas.BYTES},
    },
    "parameters": [_IDEMPOTENCY_KEY, *map(_query_parameter, RAW_FIELDS)],
}
