"""Server-sent events, read line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class ServerSentEvent(NamedTuple):
    """One block of a stream. `id` is where to go on; `data` is empty where only that was said."""

    id: str | None
    kind: str
    data: str


def blocks(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """The blocks of a stream; comments, which keep it alive, are left out."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "id" in fields or "data" in fields:
                yield ServerSentEvent(
                    fields.get("id"), fields.get("event", "message"), fields.get("data", "")
                )
            fields = {}
            continue
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            is_more = name == "data" and "data" in fields
            fields[name] = f"{fields['data']}\n{value}" if is_more else value
