"""Regression: text of deleted documents stayed in the database file and its WAL."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event

import pytest

from fairlead import Fairlead
from fairlead.storage.sqlite import checkpoint

SECRET = b"an account number that nobody may find again "


def copies(data: Path) -> int:
    return sum(path.read_bytes().count(SECRET) for path in data.rglob("*") if path.is_file())


def submitted(fairlead: Fairlead) -> list[str]:
    short = [fairlead.submit("acme", SECRET * number).id for number in range(1, 40)]
    return [*short, fairlead.submit("acme", SECRET * 2000).id]


def test_deleted_contents_are_gone_at_close(tmp_path: Path) -> None:
    """Also while another process has the folder open."""
    with Fairlead(tmp_path) as other:
        with Fairlead(tmp_path) as fairlead:
            for id_ in submitted(fairlead):
                fairlead.delete(id_)
            assert copies(tmp_path) > 0  # in the WAL
        assert copies(tmp_path) == 0
        assert other.documents().items == []


def test_deleted_contents_are_gone_soon_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process that opens the folder purges."""
    data, killed, truncated = tmp_path / "data", tmp_path / "killed", Event()
    with Fairlead(data) as fairlead:
        for id_ in submitted(fairlead):
            fairlead.delete(id_)
        shutil.copytree(data, killed)  # as a kill leaves it
    assert copies(killed) > 0
    monkeypatch.setattr(checkpoint, "PURGE_SECONDS", 0.01)

    def truncate(truncation: checkpoint.Truncation) -> bool:
        is_done = run(truncation)
        if is_done:
            truncated.set()
        return is_done

    run = checkpoint.Truncation.run
    monkeypatch.setattr(checkpoint.Truncation, "run", truncate)
    with Fairlead(killed):
        assert truncated.wait(20)
        assert copies(killed) == 0


def test_deleted_contents_are_gone_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a close."""
    assert checkpoint.PURGE_SECONDS < 60
    monkeypatch.setattr(checkpoint, "PURGE_SECONDS", 0.01)
    is_idle, truncated = Event(), Event()

    def truncate(truncation: checkpoint.Truncation) -> bool:
        is_idle.wait()
        is_done = run(truncation)
        truncated.set()
        return is_done

    run = checkpoint.Truncation.run
    monkeypatch.setattr(checkpoint.Truncation, "run", truncate)
    with Fairlead(tmp_path) as fairlead:
        for id_ in submitted(fairlead):
            fairlead.delete(id_)
        is_idle.set()
        assert truncated.wait(60)
        assert copies(tmp_path) == 0
