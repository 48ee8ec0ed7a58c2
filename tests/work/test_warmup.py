"""What is read before the first child is forked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead.work.extract import extract
from fairlead.work.nursery import Nursery, Ward
from fairlead.work.sandbox import Sandbox
from fairlead.work.warmup import samples


def test_every_sample_is_read_by_a_reader_of_its_own(tmp_path: Path) -> None:
    kinds = []
    for content in samples():
        path = tmp_path / "sample"
        path.write_bytes(content)
        found = extract(path)
        assert found.text
        kinds.append(found.kind)
    assert kinds == ["pdf", "email", "rtf", "text", "csv", "docx", "xlsx", "pptx", "odt"]


def test_it_leaves_nothing_behind_that_would_forbid_a_fork(start: Any) -> None:
    nursery = Nursery()
    sandbox = start(Sandbox(nursery=nursery)).until_ready()
    assert isinstance(sandbox._child, Ward)
    sandbox.close()
    nursery.close()
