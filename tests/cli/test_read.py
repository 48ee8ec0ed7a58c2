"""`fairlead read`: files to standard output, without a data folder."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import docx
import msoffcrypto
import pytest
from click.testing import CliRunner, Result

from fairlead.cli import main
from fairlead.model.documents import Broken
from fairlead.worker.file_reader import FileReader
from fairlead.worker.sandbox.answer import Extraction
from fairlead.worker.sandbox.limits import SandboxLimits

pytestmark = pytest.mark.services
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *words, **more: CliRunner().invoke(main, ["read", *words], **more)


@pytest.fixture
def offer(tmp_path: Path) -> Path:
    document = docx.Document()
    document.add_heading("Offer", 1)
    document.add_paragraph("It costs 10 €.")
    document.save(str(tmp_path / "offer.docx"))
    return tmp_path / "offer.docx"


def test_the_text_of_one_file(run: Run, offer: Path, tmp_path: Path) -> None:
    result = run("offer.docx")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Offer\nIt costs 10 €.\n", "")
    assert run("--markdown", str(offer)).stdout == "# Offer\n\nIt costs 10 €.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["offer.docx"]


def test_of_several_files_the_good_ones_are_read(run: Run, offer: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    (tmp_path / "link").symlink_to(offer)
    result = run("missing.txt", "empty", "broken.pdf", "link", "offer.docx")
    text = "Offer\nIt costs 10 €.\n"
    assert result.exit_code == 1
    assert result.stdout == f"==> link <==\n{text}==> offer.docx <==\n{text}"
    missing, empty, broken = result.stderr.splitlines()
    assert missing == "fairlead: missing.txt does not exist; check the path"
    assert empty.startswith("fairlead: ")
    assert "empty" in empty
    assert broken.startswith("fairlead: broken.pdf: The ")


def test_json_has_one_object_per_line(run: Run, offer: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    result = run("offer.docx", "broken.pdf", "missing", "--json")
    assert result.exit_code == 1
    good, broken, missing = map(json.loads, result.stdout.splitlines())
    assert list(good) == ["name", "kind", "text", "markdown", "facts", "error", "detail"]
    assert (good["name"], good["kind"], good["error"]) == ("offer.docx", "docx", None)
    assert good["markdown"] == "# Offer\n\nIt costs 10 €."
    assert good["facts"]["words"] == 5
    assert (broken["kind"], broken["error"], broken["text"]) == ("pdf", "damaged", None)
    assert missing["error"] == "unreadable-source"


def test_a_password_opens_a_file(run: Run, offer: Path) -> None:
    locked = io.BytesIO()
    msoffcrypto.OfficeFile(io.BytesIO(offer.read_bytes())).encrypt("sesame", locked)
    offer.write_bytes(locked.getvalue())
    assert "protected by a password" in run("offer.docx").stderr
    assert run("offer.docx", "--password", "-", input="sesame\n").stdout.startswith("Offer")


def test_a_missing_extra_is_named(run: Run, offer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import runpy, sys; sys.modules['pypdfium2'] = None; "
        "runpy.run_module('fairlead.worker.sandbox.child', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-P", "-s", "-B", "-c", script]
    monkeypatch.setattr("fairlead.worker.sandbox.process.python", lambda _: command)
    result = run(str(offer))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "; install it: " in result.stderr
    assert result.stderr.endswith("[documents]'\n")
    assert result.stderr.count("\n") == 1


def test_a_child_that_died_is_replaced(offer: Path) -> None:
    with FileReader() as reader:
        assert isinstance(reader.read(offer), Extraction)
        assert reader._sandbox is not None
        reader._sandbox.kill()
        outcome = reader.read(offer)
        assert isinstance(outcome, Broken)
        assert outcome.code == "worker-lost", "somebody else killed it"
        assert isinstance(reader.read(offer), Extraction)


def test_the_time_limit_ends_a_reading(offer: Path) -> None:
    with FileReader(SandboxLimits(seconds=0)) as reader:
        outcome = reader.read(offer)
    assert isinstance(outcome, Broken)
    assert outcome.code == "time-limit"


def test_a_document_from_stdin(run: Run, offer: Path, tmp_path: Path) -> None:
    content = offer.read_bytes()
    assert run("-", input=content).stdout == "Offer\nIt costs 10 €.\n"
    assert json.loads(run("--json", "-", input=content).stdout)["kind"] == "docx"
    assert run("-", "--password", "-", input=content).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["offer.docx"]
