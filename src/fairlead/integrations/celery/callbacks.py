"""What follows from a task keeps its priority: later tasks of its chain, and its callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LINKS = ("link", "link_error")
_MEMBERS = ("tasks", "header", "body")


def with_followers(options: dict[str, Any], priority: int) -> dict[str, Any]:
    """The options of a call, in which the signatures that follow have the priority too.

    Signatures that name a customer or a priority of their own stay as they are. Nothing of the
    caller's is changed: signatures become plain dicts, as they are sent.
    """
    changed = {
        name: _each(options[name], priority)
        for name in ("chain", *_LINKS)
        if options.get(name) is not None
    }
    return {**options, **changed}


def _each(found: Any, priority: int) -> Any:
    if isinstance(found, Mapping):
        return _following(found, priority)
    if isinstance(found, list | tuple):
        return [_each(one, priority) for one in found]
    return found


def _following(signature: Mapping[str, Any], priority: int) -> dict[str, Any]:
    options = dict(signature.get("options") or {})
    if options.get("customer") is not None or options.get("priority") is not None:
        return dict(signature)
    options = with_followers({**options, "priority": priority}, priority)
    return {**signature, "options": options, "kwargs": _members(signature, priority)}


def _members(signature: Mapping[str, Any], priority: int) -> Any:
    """Tasks of a group, chain or chord stand among its keyword arguments."""
    kwargs = signature.get("kwargs")
    if not isinstance(kwargs, Mapping) or not signature.get("subtask_type"):
        return kwargs
    return {
        name: _each(value, priority) if name in _MEMBERS else value
        for name, value in kwargs.items()
    }
