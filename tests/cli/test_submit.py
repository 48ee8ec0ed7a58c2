"""`fairlead docs submit`: which files go in, and what is told of them, however it ends."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from apikit import served
from click.testing import CliRunner, Result
from cutting_proxy import cut

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.cli.submit import wait_for
from fairlead.cli.target import Target
from fairlead.model.documents import Document
from fairlead.model.installation import Installation


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("FAIRLEAD_URL", "FAIRLEAD_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all")
    return path


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder with a file, and with a folder that has another."""
    folder = tmp_path / "inbox"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "sub" / "b.txt").write_text("b")
    return folder


def submit(*words: str | Path) -> Result:
    """Of customer acme, to the data folder."""
    return CliRunner().invoke(main, ["docs", "submit", "--customer", "acme", *map(str, words)])


def names(data: Path) -> list[str]:
    """What was accepted, in the order of acceptance."""
    with Fairlead(data) as fairlead:
        return [document.name for document in reversed(fairlead.documents().items)]


# --- which files ---


@pytest.mark.parametrize("more", [(), ("--skip-bad",), ("letter.txt",)])
def test_an_empty_path_is_no_path(letter: Path, data: Path, more: tuple[str, ...]) -> None:
    result = submit("", *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the path is empty" in result.stderr
    assert not data.exists()


@pytest.mark.parametrize("own", ["a\nb.txt", "caf\udce9.txt"], ids=["newline", "not UTF-8"])
def test_a_new_name_stands_for_one_that_cannot_be(inbox: Path, data: Path, own: str) -> None:
    path = inbox / "sub" / own
    path.write_text("hello")
    refused = submit(inbox)
    assert (refused.exit_code, "inbox/sub/" in refused.stderr) == (2, True)
    assert len(refused.stderr.splitlines()) == 1
    assert submit(path, "--name", "good.txt").exit_code == 0
    assert names(data) == ["good.txt"]


def test_a_bad_new_name_is_no_bad_file(letter: Path, data: Path) -> None:
    result = submit(letter, "--name", "a/b", "--skip-bad")
    assert (result.exit_code, "skipped" in result.stderr) == (2, False)
    assert not data.exists()


def closed(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Let nobody read these; permissions would not hold root back."""
    real_open, real_scandir, real_access = Path.open, os.scandir, os.access

    def check(path: Any) -> None:
        if not isinstance(path, int) and Path(path) in paths:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

    def open_(path: Path, *how: Any, **named: Any) -> Any:
        check(path)
        return real_open(path, *how, **named)

    def scandir(path: Any) -> Any:
        check(path)
        return real_scandir(path)

    def access(path: Any, mode: int) -> bool:
        return Path(path) not in paths and real_access(path, mode)

    monkeypatch.setattr(Path, "open", open_)
    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "access", access)


def test_an_unreadable_file_refuses_all_or_is_skipped(
    inbox: Path, letter: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(monkeypatch, letter)
    for words in ((letter,), (letter, inbox)):
        refused = submit(*words)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "letter.txt cannot be read (Permission denied)" in refused.stderr
    assert not data.exists()
    result = submit(letter, inbox, "--skip-bad")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert result.stderr.startswith(f"skipped: {letter} cannot be read")
    assert names(data) == ["a.txt", "b.txt"]


def test_an_unreadable_folder_refuses_all_or_is_skipped(
    inbox: Path, letter: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(monkeypatch, inbox / "sub")
    refused = submit(inbox)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "--skip-bad" in refused.stderr
    assert not data.exists()
    result = submit(inbox, letter, "--skip-bad")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert result.stderr.startswith(f"skipped: folder {inbox / 'sub'} cannot be read")
    assert names(data) == ["a.txt", "letter.txt"]


def test_a_link_to_a_folder_is_left_out_and_named(inbox: Path, tmp_path: Path, data: Path) -> None:
    (inbox / "round").symlink_to(inbox)
    (inbox / ".hidden").symlink_to(inbox)
    (inbox / "z.txt").symlink_to(inbox / "a.txt")
    result = submit(inbox)
    assert result.exit_code == 0
    assert [line for line in result.stderr.splitlines() if "skipped" in line] == [
        f"skipped: {inbox / 'round'} is a link to a folder; name it to submit its files"
    ]
    assert names(data) == ["a.txt", "z.txt", "b.txt"]
    (tmp_path / "named").symlink_to(inbox / "sub")
    assert submit(tmp_path / "named").exit_code == 0
    assert names(data)[3:] == ["b.txt"]


# --- what is told of them ---


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_what_was_accepted_before_a_refusal_is_told(
    inbox: Path, data: Path, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    monkeypatch.setattr("fairlead.cli.submit.BATCH", 1)
    with Fairlead(data) as fairlead:
        fairlead.customers.add("acme")
        fairlead.customers.set("acme", pending_cap=1)
    result = submit(inbox, *form)
    assert (result.exit_code, ids_in(result.stdout, form)) == (1, ids(data))
    first, last = result.stderr.splitlines()
    assert first == "1 of 2 documents were accepted before this error"
    assert "cap of 1" in last
    nothing = submit(inbox, *form)
    assert (nothing.exit_code, nothing.stdout) == (1, "")


def ids(data: Path) -> list[str]:
    with Fairlead(data) as fairlead:
        return [document.id for document in reversed(fairlead.documents().items)]


def ids_in(output: str, form: tuple[str, ...]) -> list[str]:
    """The ids that a command has printed."""
    if "--json" in form:
        return [document["id"] for document in json.loads(output)["documents"]]
    return [line.split()[0] for line in output.splitlines()]


@pytest.mark.services
@pytest.mark.parametrize(
    ("number", "code", "form"),
    [
        pytest.param(signal.SIGINT, 1, (), id="SIGINT-words"),
        pytest.param(signal.SIGINT, 1, ("--json",), id="SIGINT-json", marks=pytest.mark.full),
        pytest.param(signal.SIGTERM, 143, (), id="SIGTERM-words", marks=pytest.mark.full),
        pytest.param(signal.SIGTERM, 143, ("--json",), id="SIGTERM-json", marks=pytest.mark.full),
    ],
)
def test_what_was_accepted_before_a_signal_is_told(
    inbox: Path, data: Path, number: int, code: int, form: tuple[str, ...]
) -> None:
    is_held, ended = threading.Event(), threading.Event()
    answers = 0

    def holds(piece: bytes) -> bool:
        """The answer to the second batch comes when nobody is there any more."""
        nonlocal answers
        answers += piece.startswith(b"HTTP/1.1 202")
        if answers < 2:
            return False
        is_held.set()
        return ended.wait(60)

    with (
        served(data, "--workers", "0", max_upload_files=1) as server,
        cut(server.port, cuts=holds) as line,
    ):
        words = ("docs", "submit", inbox, *form, "--url", line.url, "--key", server.key("acme"))
        with subprocess.Popen(
            [sys.executable, "-m", "fairlead", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert is_held.wait(60)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        ended.set()
    assert (process.returncode, ids_in(out, form)) == (code, ids(data)[:1])
    assert err.startswith("1 of 2 documents were accepted before this error\n")
    assert "Traceback" not in err


@pytest.mark.services
@pytest.mark.parametrize("way", ["folder", "server"])
def test_a_document_that_is_deleted_is_over_and_the_others_are_waited_for(
    inbox: Path, data: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def delete_first(
        target: Target, installation: Installation, documents: list[Document]
    ) -> list[Document]:
        with Fairlead(data) as fairlead:
            fairlead.delete(documents[0].id)
            fairlead.cancel(documents[1].id)
        return wait_for(target, installation, documents)

    monkeypatch.setattr("fairlead.cli.submit.wait_for", delete_first)
    with served(data, "--workers", "0") as server:
        key = server.key("acme")
        there = () if way == "folder" else ("--url", server.url, "--key", key)
        result = submit(inbox, "--wait", "--json", *there)
    assert result.exit_code == 0, result.stderr
    (left,) = json.loads(result.stdout)["documents"]
    assert (left["name"], left["state"]) == ("b.txt", "cancelled")
    assert result.stderr.endswith("a.txt was deleted meanwhile\n")


def test_fields_of_a_submission_are_options(letter: Path, data: Path) -> None:
    data.mkdir(exist_ok=True)
    (data / "fairlead.toml").write_text("[pipelines.invoices]\n")
    options = ("--metadata", "shop=3", "--metadata", '{"order": 471}', "--reference", "A-17")
    later = ("--pipeline", "invoices", "--not-before", "3600", "--json")
    result = submit(letter, *options, *later)
    (document,) = json.loads(result.stdout)["documents"]
    assert document["metadata"] == {"shop": "3", "order": 471}
    assert (document["pipeline"], document["reference"]) == ("invoices", "A-17")
    assert document["not_before"] > document["submitted_at"]
    submit(letter)
    filters = (("--reference", "A-17"), ("--metadata", "order=471"), ("--pipeline", "invoices"))
    for query in filters:
        listed = CliRunner().invoke(main, ["docs", "list", *query, "--json"])
        assert [shown["id"] for shown in json.loads(listed.stdout)["documents"]] == [document["id"]]


@pytest.mark.parametrize(
    "option", [("--metadata", "shop"), ("--not-before", "soon"), ("--reference", "")]
)
def test_a_wrong_field_is_refused_before_anything_is_accepted(
    letter: Path, data: Path, option: tuple[str, str]
) -> None:
    result = submit(letter, *option)
    assert result.exit_code == 2, result.output
    assert names(data) == []


def test_a_document_is_changed_by_docs_set(letter: Path, data: Path) -> None:
    (document,) = json.loads(submit(letter, "--json").stdout)["documents"]
    words = ["docs", "set", document["id"], "--urgent", "--reference", "A", "--json"]
    result = CliRunner().invoke(main, words)
    (changed,) = json.loads(result.stdout)["documents"]
    assert (changed["urgent"], changed["reference"]) == (True, "A")
    nothing = CliRunner().invoke(main, ["docs", "set", document["id"]])
    assert nothing.exit_code == 2
