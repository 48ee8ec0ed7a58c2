"""Options of a submission: all interfaces check them alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.errors import InvalidField, Refused
from fairlead.model.submissions import (
    NotBefore,
    form_fields,
    metadata_from,
    moment,
    options_from,
    submission_options,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (90, NotBefore(90.0, is_delay=True)),
        (timedelta(minutes=2), NotBefore(120.0, is_delay=True)),
        ("90", NotBefore(90.0, is_delay=True)),
        ("90d", NotBefore(90 * 86_400.0, is_delay=True)),
        ("12h", NotBefore(43_200.0, is_delay=True)),
        ("30m", NotBefore(1800.0, is_delay=True)),
        ("45s", NotBefore(45.0, is_delay=True)),
        ("2026-01-31", NotBefore(NOON.timestamp() - 43_200)),
        (NOON, NotBefore(NOON.timestamp())),
        ("2026-01-31T12:00:00Z", NotBefore(NOON.timestamp())),
        ("2026-01-31T13:00:00+01:00", NotBefore(NOON.timestamp())),
    ],
)
def test_an_earliest_start_is_a_time_or_a_delay(value: Any, expected: NotBefore) -> None:
    assert moment(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        -1,
        float("nan"),
        "inf",
        "tomorrow",
        "5w",
        "-1d",
        "2026-01-31T12:00:00",
        NOON.replace(tzinfo=None),
    ],
)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(InvalidField):
        moment(value)


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"a": "x" * 4096}},
        {"metadata": {"a": object()}},
        {"metadata": [1]},
        {"reference": ""},
        {"reference": " a"},
        {"reference": "a\nb"},
        {"reference": "a" * 201},
        {"pipeline": ""},
        {"pipeline": "a b"},
        {"pipeline": "a" * 65},
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidField):
        submission_options(**fields)


@pytest.mark.parametrize("text", ["", "[]", "1", "{", '{"a": "\\ud800"}', b"\xff", "[" * 100_000])
def test_metadata_in_a_request_must_be_an_object(text: str | bytes) -> None:
    with pytest.raises(InvalidField):
        metadata_from(text)


def test_options_survive_the_way_through_a_request() -> None:
    options = submission_options(
        urgent=True,
        password="secret",
        pipeline="invoices",
        metadata={"order": 471, "where": "Łódź"},
        reference="A-17",
        not_before=NOON,
    )
    assert options_from(form_fields(options)) == options
    assert form_fields(submission_options()) == {}
    assert options_from({}) == submission_options()


def test_urgent_is_true_or_false() -> None:
    assert options_from({"urgent": " Yes"}).urgent
    with pytest.raises(Refused):
        options_from({"urgent": "maybe"})
