"""The result of a document as JSON."""

from __future__ import annotations

from typing import Any

from fairlead.model.documents import ResultFile
from fairlead.model.json import Record


class ResultSummary(Record, frozen=True, kw_only=True):
    """The result of a document; `data` is empty if no step returned any."""

    id: str
    kind: str | None
    has_text: bool
    data: dict[str, Any]
    files: tuple[ResultFile, ...]


class Cause(Record, frozen=True):
    """Why a document or its last attempt failed, for operators: a traceback or a sentence."""

    id: str
    cause: str | None
