"""What is wrong with a value of a request, in words that other languages can say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead.errors import Message

Context = Mapping[str, Any]


def _is_no_number(_: Context) -> Message:
    return Message("must be a number")


def _is_not_whole(_: Context) -> Message:
    return Message("must be a whole number")


def _is_no_truth(_: Context) -> Message:
    return Message("must be true or false")


def _is_no_list(_: Context) -> Message:
    return Message("must be a list")


def _is_no_object(_: Context) -> Message:
    return Message("must be an object")


def _is_none_of(context: Context) -> Message:
    return Message("must be one of {expected}", expected=context["expected"].replace(" or ", ", "))


_SAID: dict[str, Callable[[Context], Message]] = {
    "missing": lambda _: Message("is missing"),
    "extra_forbidden": lambda _: Message("is not known here"),
    "json_invalid": lambda _: Message("must be JSON"),
    "string_type": lambda _: Message("must be a text"),
    "int_parsing": _is_not_whole,
    "int_type": _is_not_whole,
    "int_from_float": _is_not_whole,
    "float_parsing": _is_no_number,
    "float_type": _is_no_number,
    "finite_number": _is_no_number,
    "bool_parsing": _is_no_truth,
    "bool_type": _is_no_truth,
    "list_type": _is_no_list,
    "tuple_type": _is_no_list,
    "dict_type": _is_no_object,
    "model_type": _is_no_object,
    "model_attributes_type": _is_no_object,
    "enum": _is_none_of,
    "literal_error": _is_none_of,
    "greater_than": lambda context: Message("must be more than {least}", least=context["gt"]),
    "greater_than_equal": lambda context: Message("must be {least} or more", least=context["ge"]),
    "less_than": lambda context: Message("must be less than {most}", most=context["lt"]),
    "less_than_equal": lambda context: Message("must be {most} or less", most=context["le"]),
    "string_too_short": lambda context: Message(
        "must be longer: at least {least} characters", least=context["min_length"]
    ),
    "string_too_long": lambda context: Message(
        "must be shorter: at most {most} characters", most=context["max_length"]
    ),
    "too_short": lambda context: Message(
        "must be longer: at least {least} entries", least=context["min_length"]
    ),
    "too_long": lambda context: Message(
        "must be shorter: at most {most} entries", most=context["max_length"]
    ),
}
"""By pydantic's name for what is wrong."""


def where(error: Mapping[str, Any]) -> str:
    """Where in the request the value stands."""
    return ".".join(str(part) for part in error["loc"])


def what(error: Mapping[str, Any]) -> str:
    """What is wrong with it; what nobody has words for stays as pydantic says it."""
    make = _SAID.get(error["type"])
    return str(error["msg"]) if make is None else make(error.get("ctx") or {})
