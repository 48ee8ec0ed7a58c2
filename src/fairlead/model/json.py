"""Records and their JSON: the base class, and the only encoder and decoder of the project."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, lru_cache
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import msgspec
from msgspec import structs

T = TypeVar("T")

if TYPE_CHECKING:
    Time = float
else:

    class Time(float):
        """Seconds since 1970; in JSON an RFC 3339 text in UTC with milliseconds."""

        __slots__ = ()


class Record(msgspec.Struct, frozen=True):
    """A value whose fields are those of its JSON, in the same order."""

    def __post_init__(self) -> None:
        for name in _time_fields(type(self)):
            value = getattr(self, name)
            if value is not None and type(value) is not Time:
                structs.force_setattr(self, name, Time(value))


@cache
def _time_fields(record: type[msgspec.Struct]) -> tuple[str, ...]:
    fields = structs.fields(record)
    return tuple(field.name for field in fields if Time in (field.type, *get_args(field.type)))


@lru_cache
def rfc3339(seconds: float) -> str:
    """A time as JSON shows it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _encode(value: Any) -> Any:
    if type(value) is Time:
        return rfc3339(value)
    if isinstance(value, str | Path):  # a message with its parameters, or a path
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON")


def _decode(kind: type, value: Any) -> Any:
    if kind is Time and isinstance(value, str):
        return Time(datetime.fromisoformat(value).timestamp())
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"expected a time; got {type(value).__name__}")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode)


def to_json(value: Any) -> bytes:
    """A record, or plain data with records in it, as JSON without spaces."""
    return _ENCODER.encode(value)


def to_dict(record: msgspec.Struct | dict[str, Any]) -> dict[str, Any]:
    """A record, or plain data with records in it, as the plain data of its JSON."""
    plain: dict[str, Any] = msgspec.json.decode(to_json(record))
    return plain


def from_json(record: type[T], content: bytes | str) -> T:
    """The record in a JSON text; unknown fields are ignored."""
    return msgspec.json.decode(content, type=record, dec_hook=_decode)


def from_dict(record: type[T], plain: Any) -> T:
    """The record in plain data: the inverse of `to_dict`."""
    return msgspec.convert(plain, record, dec_hook=_decode)


def schemas(records: list[Any]) -> dict[str, Any]:
    """JSON schemas of records, by their names, with references as OpenAPI has them."""
    _, components = msgspec.json.schema_components(
        records, schema_hook=_schema, ref_template="#/components/schemas/{name}"
    )
    for schema in components.values():
        if "description" in schema:  # Python removes the indentation of docstrings since 3.13
            schema["description"] = cleandoc(schema["description"])
    return components


def _schema(kind: type) -> dict[str, Any]:
    if kind is Time:
        return {"type": "string", "format": "date-time"}
    raise NotImplementedError(f"{kind.__name__} has no schema")
