"""Passes the priority of a task on to its callbacks and to the rest of its chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_callbacks(options: dict[str, Any], priority: int) -> dict[str, Any]:
    """The options of a call, with the priority in all signatures that follow from it.

    Signatures that name a customer or a priority of their own stay unchanged, and so do the
    caller's objects: changed signatures are plain dicts.
    """
    return options | {
        name: _prioritized(options[name], priority)
        for name in ("chain", "link", "link_error")
        if options.get(name) is not None
    }


def _prioritized(value: Any, priority: int) -> Any:
    if isinstance(value, list | tuple):
        return [_prioritized(item, priority) for item in value]
    if not isinstance(value, Mapping):
        return value
    options = dict(value.get("options") or {})
    if options.get("customer") is not None or options.get("priority") is not None:
        return dict(value)
    options = with_callbacks({**options, "priority": priority}, priority)
    return {**value, "options": options, "kwargs": _prioritized_members(value, priority)}


def _prioritized_members(signature: Mapping[str, Any], priority: int) -> Any:
    """The keyword arguments of a group, chain or chord, which contain its tasks."""
    kwargs = signature.get("kwargs")
    if not isinstance(kwargs, Mapping) or not signature.get("subtask_type"):
        return kwargs
    return {
        name: _prioritized(value, priority) if name in ("tasks", "header", "body") else value
        for name, value in kwargs.items()
    }
