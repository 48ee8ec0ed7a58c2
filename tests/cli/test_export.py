"""`fairlead docs export`: every result once, also over several runs; and texts after a wait."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from resultkit import add_done, add_failed, claim_all, done_with

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.cli.export import STATE_FILE
from fairlead.model.results import Content


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def export(fairlead: Fairlead, out: Path, *options: str) -> Result:
    words = ["docs", "export", "--data", str(fairlead.folder.path), "--to", str(out), *options]
    return CliRunner().invoke(main, words)


def written(out: Path) -> dict[str, str]:
    """The texts of the files, by the part of their names after the id."""
    files = [path for path in out.iterdir() if path.name != STATE_FILE]
    return {path.name.partition("-")[2]: path.read_text("utf-8") for path in files}


def test_each_result_is_written_once_over_several_runs(fairlead: Fairlead, out: Path) -> None:
    add_done(fairlead, "acme", ["one", "two"])
    add_done(fairlead, "bolt", ["foreign"])
    add_failed(fairlead, "acme")
    result = export(fairlead, out, "--customer", "acme")
    assert result.exit_code == 0, result.output
    assert "2 results written" in result.stderr
    assert "1 failed" in result.stderr
    assert written(out) == {"one.txt": "one", "two.txt": "two"}
    for path in out.glob("*one*"):
        path.unlink()
    add_done(fairlead, "acme", ["three"])
    again = export(fairlead, out, "--customer", "acme")
    assert "1 result written" in again.stderr
    assert set(written(out)) == {"two.txt", "three.txt"}, "the first is not written again"


def test_an_export_that_was_interrupted_continues(
    fairlead: Fairlead, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_done(fairlead, "acme", ["one", "two", "three"])
    replace = Path.replace

    def full_disk(self: Path, target: Path) -> Path:
        if "two" in target.name:
            raise OSError(28, "No space left on device", str(target))
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full_disk)
        assert export(fairlead, out).exit_code == 1
    assert set(written(out)) == {"one.txt"}
    assert export(fairlead, out).exit_code == 0
    assert set(written(out)) == {"one.txt", "two.txt", "three.txt"}


def test_markdown_and_json(fairlead: Fairlead, out: Path) -> None:
    fairlead.submit("acme", b"a letter", name="letter.html")
    (claim,) = claim_all(fairlead, 1)
    fairlead.store.finish(claim, done_with("Dear all", "# Dear all"))
    failed = add_failed(fairlead, "acme")
    assert export(fairlead, out / "md", "--markdown").exit_code == 0
    assert written(out / "md") == {"letter.html.md": "# Dear all"}
    assert export(fairlead, out / "json", "--json").exit_code == 0
    documents = {name: json.loads(text) for name, text in written(out / "json").items()}
    assert documents["letter.html.json"]["text"] == "Dear all"
    assert documents["letter.html.json"]["markdown"] == "# Dear all"
    assert documents["broken.txt.json"]["id"] == failed.id


@pytest.mark.parametrize("options", [["--customer", "acme"], ["--markdown"]])
def test_a_folder_has_one_export(fairlead: Fairlead, out: Path, options: list[str]) -> None:
    add_done(fairlead, "acme", ["one"])
    assert export(fairlead, out).exit_code == 0
    refused = export(fairlead, out, *options)
    assert refused.exit_code == 2
    assert "export to another folder" in refused.stderr


def test_files_are_written_to_a_folder_of_their_document(fairlead: Fairlead, out: Path) -> None:
    (plain,) = add_done(fairlead, "acme", ["plain"])
    note = fairlead.submit("acme", b"note", name="NOTE.TXT")
    scan = fairlead.submit("acme", b"scan", name="scan.pdf")
    sha256 = hashlib.sha256(b"\x89PNG").hexdigest()
    files = (Content(4, sha256, "page-001.png", "image/png", content=b"\x89PNG"),)
    for claim in claim_all(fairlead, 2):
        fairlead.store.finish(claim, done_with("words")._replace(files=files))
    result = export(fairlead, out, "--files")
    assert result.exit_code == 0, result.output
    folder = out / f"{scan.id}-scan.pdf"
    assert [path.name for path in folder.iterdir()] == ["page-001.png"]
    assert (folder / "page-001.png").read_bytes() == b"\x89PNG"
    assert (out / f"{scan.id}-scan.pdf.txt").read_text() == "words"
    assert not (out / f"{plain.id}-plain").exists(), "it has no files, so no folder"
    assert (out / f"{note.id}-NOTE.TXT").read_text() == "words"
    assert [path.name for path in (out / f"{note.id}-NOTE").iterdir()] == ["page-001.png"]
    assert "has an export of another extent: texts and files" in export(fairlead, out).stderr


def test_a_damaged_text_is_reported_and_the_others_written(fairlead: Fairlead, out: Path) -> None:
    fairlead.submit("acme", b"a")
    (claim,) = claim_all(fairlead, 1)
    fairlead.store.finish(claim, done_with("right")._replace(text_sha256="0" * 64))
    add_done(fairlead, "acme", ["whole"])
    result = export(fairlead, out)
    assert result.exit_code == 1
    assert "1 text could not be read" in result.stderr
    assert written(out) == {"whole.txt": "whole"}


def test_names_as_long_as_can_be_fit_the_file_system(fairlead: Fairlead, out: Path) -> None:
    fairlead.submit("acme", b"a", name="ä" * 255)
    (claim,) = claim_all(fairlead, 1)
    fairlead.store.finish(claim, done_with("long"))
    assert export(fairlead, out).exit_code == 0
    assert [*written(out).values()] == ["long"]


@pytest.mark.full
def test_ten_thousand_results_are_exported_by_one_command(fairlead: Fairlead, out: Path) -> None:
    for first in range(0, 10_000, 500):
        fairlead.submit_many("acme", [(b"%d" % n, f"{n}.txt") for n in range(first, first + 500)])
        claims = claim_all(fairlead, 500)
        fairlead.store.finish_all([(claim, done_with(claim.name)) for claim in claims])
    result = export(fairlead, out, "--customer", "acme")
    assert result.exit_code == 0, result.output
    assert len(written(out)) == 10_000


@pytest.mark.services
def test_a_submission_that_waits_prints_texts_in_json(fairlead: Fairlead, tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear all")
    data = str(fairlead.folder.path)
    sent = ["docs", "submit", str(letter), "--customer", "acme", "--data", data, "--json"]
    (waiting,) = json.loads(CliRunner().invoke(main, sent).stdout)["documents"]
    assert "text" not in waiting
    fairlead.run_until_idle(workers=1)
    again = CliRunner().invoke(main, [*sent[:-1], "--idempotency-key", "k", "--json"])
    fairlead.run_until_idle(workers=1)
    waited = CliRunner().invoke(main, [*sent[:-1], "--idempotency-key", "k", "--wait", "--json"])
    (done,) = json.loads(waited.stdout)["documents"]
    assert json.loads(again.stdout)["documents"][0]["id"] == done["id"]
    assert done["text"].strip() == "Dear all"
