"""The job that a step gets: the document, and the results of earlier steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any

from fairlead.steps.disk_full import retrying_on_full_disk
from fairlead.steps.outcomes import StepJob


class Job:
    """One document for a step.

    `attempt` counts from 1; with `id` it makes calls to other services idempotent.
    """

    def __init__(
        self, record: StepJob, report: Callable[[int, int], None] = lambda _done, _total: None
    ) -> None:
        self._record = record
        self._report = report
        self._cancelled = Event()

    @property
    def id(self) -> str:
        """The document's id."""
        return self._record.id

    @property
    def customer(self) -> str:
        return self._record.customer

    @property
    def name(self) -> str:
        """The document's name, not its path: that is `path`."""
        return self._record.name

    @property
    def kind(self) -> str | None:
        """The kind of document, if an earlier step has detected it: "pdf", "docx"."""
        return self._record.kind

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata that was submitted with the document."""
        return self._record.metadata

    @property
    def attempt(self) -> int:
        return self._record.attempt

    @cached_property
    def path(self) -> Path:
        """The file of the original, for reading only. The file of a short one is written now."""
        path = self._record.folder / "original"
        content = self._record.contents.get("original")
        if content is not None:
            with retrying_on_full_disk():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.write_bytes(content)
        return path

    @property
    def content(self) -> bytes:
        """The bytes of the original."""
        content = self._record.contents.get("original")
        return self.path.read_bytes() if content is None else content

    def json(self) -> Any:
        """The original as JSON."""
        return json.loads(self.content)

    @cached_property
    def text(self) -> str:
        """The text of earlier steps; empty if there is none."""
        return self._earlier("text") or ""

    @cached_property
    def markdown(self) -> str:
        """The Markdown of earlier steps; the text if there is none."""
        markdown = self._earlier("markdown")
        return self.text if markdown is None else markdown

    @cached_property
    def data(self) -> dict[str, Any]:
        """The data of earlier steps."""
        return self.earlier_data()

    def earlier_data(self) -> dict[str, Any]:
        """The data of earlier steps, whatever the step has done with `data`."""
        data: dict[str, Any] = json.loads(self._earlier("data.json") or "{}")
        return data

    def progress(self, done: int, total: int) -> None:
        """Report the progress of the job: 3 of 10 pages."""
        self._report(done, total)

    @property
    def cancelled(self) -> bool:
        """Whether the document was cancelled, so that the result is not needed."""
        return self._cancelled.is_set()

    def mark_cancelled(self) -> None:
        """Set `cancelled`. Called by the step process; the document itself is not changed."""
        self._cancelled.set()

    def _earlier(self, name: str) -> str | None:
        content = self._record.contents.get(name)
        if content is not None:
            return content.decode()
        try:
            return (self._record.folder / name).read_bytes().decode()
        except FileNotFoundError:
            return None
