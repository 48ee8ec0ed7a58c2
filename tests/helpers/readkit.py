"""Documents made on the spot, and a child to read them."""

from __future__ import annotations

import hashlib
import io
import json
import selectors
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docx
import pytest
from forkkit import shared
from reportlab.pdfgen.canvas import Canvas

from fairlead.read import CannotRead, Extracted, ReadLimits, extract
from fairlead.worker.sandbox.process import JobAnswer, ReadJob, Sandbox

PATIENCE = 60.0

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]


class Reading:
    """A sandbox with the waiting that an engine does."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._selector = selectors.DefaultSelector()
        self._selector.register(sandbox, selectors.EVENT_READ)

    def until_ready(self) -> Sandbox:
        while not self.sandbox.ready:
            assert self._selector.select(PATIENCE), "the child did not become ready"
            assert self.sandbox.receive() == []
        return self.sandbox

    def answer(self) -> JobAnswer:
        (answer,) = self.answers(1)
        return answer

    def answers(self, number: int) -> list[JobAnswer]:
        answers: list[JobAnswer] = []
        while len(answers) < number:
            assert self._selector.select(PATIENCE), "the child did not answer"
            answers += self.sandbox.receive()
        return answers

    def close(self) -> None:
        self._selector.close()
        if self.sandbox.busy:
            self.sandbox.kill()
        self.sandbox.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Reading]]:
    """Starts children, by default forked by the shared server; they end with the test."""
    started: list[Reading] = []

    def run(sandbox: Sandbox | None = None) -> Reading:
        sandbox = sandbox or Sandbox(forkserver=shared())
        sandbox.start()
        started.append(Reading(sandbox))
        return started[-1]

    yield run
    for reading in started:
        reading.close()


@pytest.fixture(params=["file", "short"])
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[bytes], ReadJob]:
    """A document as a job: on disk, or short and at hand."""

    def make(data: bytes) -> ReadJob:
        sha256 = hashlib.sha256(data).hexdigest()
        if request.param == "short":
            return ReadJob(data, sha256)
        path = tmp_path / sha256
        path.write_bytes(data)
        return ReadJob(path, sha256)

    return make


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Extracts from bytes whose name says nothing."""

    def run(data: bytes, password: str | None = None, **limits: Any) -> Extracted:
        path = tmp_path / "document"
        path.write_bytes(data)
        wanted = ReadLimits(**{"characters": 100_000, **limits})
        extracted = extract(path, limits=wanted, password=password)
        for text in (extracted.text, extracted.markdown or ""):
            assert "\x00" not in text
            text.encode("utf-8")
            assert len(text) <= wanted.characters
        json.dumps(extracted.facts, allow_nan=False)
        return extracted

    return run


@pytest.fixture
def refuse(read: Read) -> Refuse:
    """The reason why bytes cannot be read."""

    def run(data: bytes, **how: Any) -> CannotRead:
        with pytest.raises(CannotRead) as caught:
            read(data, **how)
        assert caught.value.detail.endswith(".")
        return caught.value

    return run


@pytest.fixture
def pdf() -> Callable[..., bytes]:
    def make(*pages: str, title: str = "", author: str = "") -> bytes:
        buffer = io.BytesIO()
        canvas = Canvas(buffer)
        canvas.setTitle(title)
        canvas.setAuthor(author)
        for text in pages:
            canvas.drawString(72, 700, text)
            canvas.showPage()
        canvas.save()
        return buffer.getvalue()

    return make


@pytest.fixture
def word() -> bytes:
    """A Word document with a header, paragraphs around a table, and properties."""
    document = docx.Document()
    document.core_properties.title = "The offer"
    document.core_properties.author = "Ada"
    document.sections[0].header.paragraphs[0].text = "Letterhead"
    document.add_paragraph("before the table")
    table = document.add_table(rows=2, cols=3)
    for row, names in zip(table.rows, (("a", "b", "c"), ("d", "", "f")), strict=True):
        for cell, name in zip(row.cells, names, strict=True):
            cell.text = name
    document.add_paragraph("after\tit")
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()
