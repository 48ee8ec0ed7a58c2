"""What is read before the first child is forked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.read import extract
from fairlead.worker.sandbox.forkserver import ForkedProcess, ForkServer
from fairlead.worker.sandbox.process import Sandbox
from fairlead.worker.sandbox.warmup import samples

pytestmark = pytest.mark.services


def test_every_sample_is_read_by_a_reader_of_its_own(tmp_path: Path) -> None:
    kinds = []
    for content in samples():
        path = tmp_path / "sample"
        path.write_bytes(content)
        extracted = extract(path)
        assert extracted.text
        kinds.append(extracted.kind)
    assert kinds == ["pdf", "email", "rtf", "text", "csv", "docx", "xlsx", "pptx", "odt"]


def test_it_leaves_nothing_behind_that_would_forbid_a_fork(start: Any) -> None:
    forkserver = ForkServer()
    sandbox = start(Sandbox(forkserver=forkserver)).until_ready()
    assert isinstance(sandbox.process, ForkedProcess)
    sandbox.close()
    forkserver.close()
