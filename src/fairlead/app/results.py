"""`Fairlead.results`: documents that have ended, in order of completion, with what they became."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import asdict

from fairlead.app.contents import check_content
from fairlead.errors import DamagedData, InvalidCursor, Message, UsageError
from fairlead.model.blobs import BlobStore
from fairlead.model.documents import RESULT_PARTS, Document, EndedDocument, StoredResult
from fairlead.model.states import State
from fairlead.storage import Store

PORTION = 100
"""Documents that are read at once; all their short contents are in memory together."""

_log = logging.getLogger(__name__)


class UnreadResult(NamedTuple):
    """A document that has ended, with its stored contents by role."""

    cursor: str
    document: Document
    contents: dict[str, StoredResult]

    @property
    def is_remote(self) -> bool:
        """Whether any of its contents is a blob."""
        return any(stored.key is not None for stored in self.contents.values())


class ResultReader:
    """Reads results in portions. Large contents are read one document at a time."""

    def __init__(self, store: Store, texts: BlobStore) -> None:
        self._store = store
        self._texts = texts

    def portion(
        self, after: int, limit: int, customer: str | None, include: Sequence[str]
    ) -> list[UnreadResult]:
        """The results after an event: `limit` or PORTION of them at most."""
        ends = self._store.ends(after, min(limit, PORTION), customer=customer)
        contents: dict[str, dict[str, StoredResult]] = defaultdict(dict)
        roles = {*include, "text"} if "markdown" in include else set(include)
        # A document that failed or was cancelled after a retry still has its old result.
        ids = [document.id for _, document in ends if document.state is State.DONE]
        if ids and roles:
            for stored in self._store.stored_results(ids, sorted(roles)):
                contents[stored.document][stored.role] = stored
        return [
            UnreadResult(str(number), document, contents[document.id]) for number, document in ends
        ]

    def read(self, result: UnreadResult, include: Sequence[str]) -> EndedDocument:
        """The document with its contents; None for those that are missing or damaged."""
        contents: dict[str, Any] = {}
        for part in include:
            stored = result.contents.get(part)
            if stored is None and part == "markdown":  # without a layout, the text is its Markdown
                stored = result.contents.get("text")
            with suppress(DamagedData):
                contents[part] = None if stored is None else self._content(part, stored)
        return EndedDocument(**asdict(result.document), cursor=result.cursor, **contents)

    def _content(self, part: str, stored: StoredResult) -> Any:
        name = f"the {stored.role} of document {stored.document}"
        try:
            content = (
                check_content(stored.content, stored.sha256 or "", name)
                if stored.key is None
                else self._texts.read(stored.key, stored.sha256 or "")
            )
        except DamagedData as error:
            _log.error("fairlead: a result is left out: %s", error)
            raise
        return json.loads(content) if part == "data" else content.decode()


def check_parts(include: Iterable[str]) -> tuple[str, ...]:
    """The parts of results to include, without duplicates; UsageError for unknown names."""
    parts = tuple(dict.fromkeys([include] if isinstance(include, str) else include))
    if any(part not in RESULT_PARTS for part in parts):
        known = ", ".join(RESULT_PARTS)
        raise UsageError(f"results include one or more of {known}; got {', '.join(parts)}")
    return parts


def event_number(store: Store, cursor: str | None) -> int:
    """The number of the event that a cursor names; 0 without a cursor."""
    if cursor is None:
        return 0
    is_number = cursor.isascii() and cursor.isdigit() and len(cursor) < 19
    if not is_number or not store.is_event(int(cursor)):
        raise InvalidCursor(
            Message("this cursor is not from a page of this listing; start without one")
        )
    return int(cursor)
