"""The options of a submission, checked in one place for Python, HTTP and the command line."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from fairlead.errors import InvalidField, Message, Refused, UsageError
from fairlead.model.json import rfc3339
from fairlead.model.names import is_printable, quoted
from fairlead.model.pipelines import DEFAULT_PIPELINE, is_pipeline_name

LONGEST_REFERENCE = 200
MOST_METADATA_BYTES = 4096
LONGEST_DELAY = 10 * 365 * 86_400
"""Seconds; a later start is probably a mistake."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_LONGEST_INDEXED = 100
"""The index has longer keys and values as hashes."""

Moment = datetime | timedelta | float | str
"""A time or a delay; a number is a delay in seconds."""


class NotBefore(NamedTuple):
    """The earliest start: seconds since 1970 or, for a delay, after acceptance."""

    seconds: float
    is_delay: bool = False

    def time(self, now: float) -> float:
        """The time for a document that is accepted now."""
        return now + self.seconds if self.is_delay else self.seconds

    def text(self) -> str:
        """The text in a request."""
        return str(self.seconds) if self.is_delay else rfc3339(self.seconds)


class SubmissionOptions(NamedTuple):
    """The options of all documents of one submission."""

    urgent: bool = False
    password: str | None = None
    pipeline: str = DEFAULT_PIPELINE
    metadata: Mapping[str, Any] = {}
    reference: str | None = None
    not_before: NotBefore | None = None


DEFAULT_OPTIONS = SubmissionOptions()


def submission_options(
    *,
    urgent: bool = False,
    password: str | None = None,
    pipeline: str = DEFAULT_PIPELINE,
    metadata: Mapping[str, Any] | None = None,
    reference: str | None = None,
    not_before: Moment | None = None,
) -> SubmissionOptions:
    """The options; InvalidField if one is not valid."""
    return SubmissionOptions(
        urgent,
        password,
        check_pipeline(pipeline),
        check_metadata(metadata or {}),
        None if reference is None else check_reference(reference),
        None if not_before is None else moment(not_before),
    )


def document_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The checked changes of a document; UsageError for other fields, or without any."""
    unknown = changes.keys() - {"urgent", "metadata", "reference"}
    if unknown or not changes:
        raise UsageError("of a document, urgent, metadata and reference can be changed; name one")
    checked = dict(changes)
    if "metadata" in changes:
        checked["metadata"] = check_metadata(changes["metadata"] or {})
    if changes.get("reference") is not None:
        check_reference(changes["reference"])
    if "urgent" in changes:
        checked["urgent"] = bool(changes["urgent"])
    return checked


def form_fields(options: SubmissionOptions) -> dict[str, str]:
    """The options as the fields of a request; defaults are left out."""
    fields = {
        "urgent": "true" if options.urgent else None,
        "password": options.password,
        "pipeline": None if options.pipeline == DEFAULT_PIPELINE else options.pipeline,
        "metadata": json.dumps(options.metadata) if options.metadata else None,
        "reference": options.reference,
        "not_before": None if options.not_before is None else options.not_before.text(),
    }
    return {name: value for name, value in fields.items() if value is not None}


def options_from(fields: Mapping[str, str]) -> SubmissionOptions:
    """The options in the fields of a request; InvalidField if one is not valid."""
    if not fields:
        return DEFAULT_OPTIONS
    return submission_options(
        urgent=_truth(fields.get("urgent", "false")),
        password=fields.get("password"),
        pipeline=fields.get("pipeline", DEFAULT_PIPELINE),
        metadata=metadata_from(fields.get("metadata", "{}")),
        reference=fields.get("reference"),
        not_before=fields.get("not_before"),
    )


def _truth(text: str) -> bool:
    value = text.strip().lower()
    if value not in _TRUTH:
        raise Refused(Message("the field urgent must be true or false"))
    return _TRUTH[value]


def check_pipeline(name: str) -> str:
    """The name of a pipeline: letters, digits, - and _."""
    if not is_pipeline_name(name):
        raise InvalidField(
            f"a pipeline's name has 1 to 64 letters, digits, - and _; got {quoted(name)}"
        )
    return name


def check_reference(reference: str, name: str = "a reference") -> str:
    """The caller's own id of a document, or another text with the same rules."""
    is_clean = reference == reference.strip() and is_printable(reference)
    if not is_clean or not 0 < len(reference) <= LONGEST_REFERENCE:
        raise InvalidField(
            f"{name} must have 1 to {LONGEST_REFERENCE} printable characters, and must not "
            f"begin or end with a space; got {quoted(reference)}"
        )
    return reference


def check_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as plain data of its JSON, an object of at most 4 kB."""
    try:
        content = msgspec.json.encode(metadata)
        plain = msgspec.json.decode(content)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
        raise InvalidField(f"metadata must be a JSON object: {error}") from None
    return _checked_object(plain, len(content))


def metadata_from(text: str | bytes) -> dict[str, Any]:
    """The metadata in a JSON text."""
    try:
        plain = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise InvalidField(f"metadata must be a JSON object: {error}") from None
    return check_metadata(plain) if isinstance(plain, dict) else _checked_object(plain, 0)


def _checked_object(plain: Any, size: int) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise InvalidField(f"metadata must be a JSON object; got {type(plain).__name__}")
    if size > MOST_METADATA_BYTES:
        raise InvalidField(
            f"metadata may have at most {MOST_METADATA_BYTES:,} bytes of JSON; got {size:,}"
        )
    return plain


def moment(value: Moment, name: str = "not_before") -> NotBefore:
    """A time or delay; InvalidField if it is not valid.

    A text is a time in RFC 3339, a date, which begins at midnight UTC, a number of seconds, or a
    duration such as 90d, 12h, 30m or 45s.
    """
    if isinstance(value, str):
        value = _moment_in(value, name)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidField(f"{name} must have a time zone; got a time without one")
        return NotBefore(value.timestamp())
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not (math.isfinite(seconds) and 0 <= seconds <= LONGEST_DELAY):
        raise _invalid_moment(str(value), name)
    return NotBefore(seconds, is_delay=True)


def _moment_in(text: str, name: str) -> datetime | float:
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        return int(duration[1]) * _UNITS[duration[2]]
    try:
        return float(text)
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise _invalid_moment(text, name) from None
    if _DATE.fullmatch(text):
        return time.replace(tzinfo=UTC)
    if time.tzinfo is None:
        raise _invalid_moment(text, name)
    return time


def _invalid_moment(text: str, name: str) -> InvalidField:
    return InvalidField(
        f"{name} is a time with its zone, such as 2026-01-31T12:00:00Z, a date, a delay in seconds "
        f"or one such as 90d or 12h; got {quoted(text)}"
    )


# --- the index of metadata ---


def metadata_query(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a query: the JSON text of each value, a string without its quotes."""
    return {key: _text(value) for key, value in metadata.items()}


def index_terms(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The keys and values in the index: strings, numbers and booleans."""
    return [
        index_term(key, _text(value))
        for key, value in metadata.items()
        if isinstance(value, str | int | float)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def index_term(key: str, value: str) -> tuple[str, str]:
    """A key and a value's JSON text without quotes, as the index has them."""
    return _indexed(key), _indexed(value)


def _indexed(text: str) -> str:
    """Long texts as hashes, as databases limit the length of index rows; also texts with NUL."""
    if len(text) <= _LONGEST_INDEXED and "\0" not in text:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
