"""`fairlead docs submit`: which files go in, and what is told of them, however it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairlead import Fairlead
from fairlead.cli import main


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
        return [each.name for each in reversed(fairlead.documents())]


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
