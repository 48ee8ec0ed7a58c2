"""A test kit for steps: run one step on one document, without a store."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead.model.json import to_json
from fairlead.steps.declare import Refuse, Result
from fairlead.steps.job import Job
from fairlead.steps.outcomes import DEFAULT_RESULT_LIMIT, StepJob
from fairlead.steps.results import as_result, write_result
from fairlead.steps.run import is_async
from fairlead.worker.file_reader import FileReader
from fairlead.worker.sandbox.answer import Extraction

Source = str | Path | bytes | dict[str, Any] | list[Any]


def run_step(
    function: Callable[[Job], Any],
    source: Source,
    *,
    read: bool = False,
    name: str | None = None,
    text: str | None = None,
    markdown: str | None = None,
    data: Mapping[str, Any] | None = None,
    kind: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    customer: str = "acme",
    attempt: int = 1,
    id: str = "document-1",  # noqa: A002 - as `job.id`
) -> Result:
    """Run a step on a path, bytes or JSON, and return its result.

    With `read`, the built-in step reads the document first, in its sandbox; a failure raises
    `Refuse`. `text`, `markdown`, `data` and `kind` stand for the results of earlier steps. An
    exception of the step is raised here, also `Refuse` and `RetryLater`. A return value that a
    worker would refuse raises `fairlead.errors.InvalidResult`.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-") as place:
        folder = Path(place)
        (folder / "original").write_bytes(_content(source))
        if read:
            extraction = _read(folder / "original")
            text, markdown = text or extraction.text, markdown or extraction.markdown
            kind = extraction.kind
        _write_texts(folder, {"text": text, "markdown": markdown})
        if data is not None:
            (folder / "data.json").write_bytes(to_json(dict(data)))
        record = StepJob(
            id, customer, name or _name(source), kind, dict(metadata or {}), attempt, folder
        )
        job = Job(record)
        value = asyncio.run(function(job)) if is_async(function) else function(job)
        write_result(value, folder / "result", DEFAULT_RESULT_LIMIT)  # checks it as a worker does
        return as_result(value)


def _read(path: Path) -> Extraction:
    with FileReader() as reader:
        outcome = reader.read(path)
    if isinstance(outcome, Extraction):
        return outcome
    raise Refuse(outcome.code, outcome.detail)


def _content(source: Source) -> bytes:
    if isinstance(source, bytes):
        return source
    return Path(source).read_bytes() if isinstance(source, str | Path) else to_json(source)


def _name(source: Source) -> str:
    if isinstance(source, str | Path):
        return Path(source).name
    return "document" if isinstance(source, bytes) else "document.json"


def _write_texts(folder: Path, texts: Mapping[str, str | None]) -> None:
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_bytes(text.encode())
