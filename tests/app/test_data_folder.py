"""The data folder: one server at a time, and nothing begun on what is broken."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from fairlead import Fairlead
from fairlead.config.data_folder import DataFolder
from fairlead.errors import DamagedData, DataError, DataInUse, NoDataFolder
from fairlead.model.blobs import SHORT_BYTES

PRECIOUS = b"precious" * SHORT_BYTES


def test_a_new_folder_is_private_and_made_with_its_parents(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "a" / "b")
    folder.make()
    folder.make()
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(DataError, match="is a file; choose a folder"):
        DataFolder(tmp_path / "taken").make()
    with pytest.raises(DataError, match="choose another folder"):
        DataFolder(tmp_path / "taken" / "below").make()


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoDataFolder, match="docs submit"):
        Fairlead(tmp_path, must_exist=True)
    assert list(tmp_path.iterdir()) == []


def test_a_second_server_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    first, second = DataFolder(tmp_path), DataFolder(tmp_path)
    assert second.server_pid() is None
    with first.as_server():
        assert second.server_pid() == os.getpid()
        with pytest.raises(DataInUse, match=f"process {os.getpid()} already uses"):
            second.as_server().__enter__()
    assert second.server_pid() is None
    with second.as_server():
        pass


def test_somebody_who_only_looks_does_not_keep_a_server_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look takes the lock for a moment; a server that starts in it must not give up."""
    folder = DataFolder(tmp_path)
    looker = os.open(tmp_path / "server.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(looker, fcntl.LOCK_SH)
    look = folder.server_pid

    def look_and_let_go() -> int | None:
        result = look()
        fcntl.flock(looker, fcntl.LOCK_UN)
        return result

    monkeypatch.setattr(folder, "server_pid", look_and_let_go)
    with folder.as_server():
        assert DataFolder(tmp_path).server_pid() == os.getpid()
    os.close(looker)


def test_documents_without_their_database_are_not_taken_for_orphans(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        document = fairlead.submit("acme", PRECIOUS)
        stored = fairlead.folder.files / document.id[:6] / document.id
    (tmp_path / "fairlead.db").rename(tmp_path / "elsewhere")
    with pytest.raises(DamagedData, match=r"documents but no fairlead\.db; restore"):
        Fairlead(tmp_path)
    assert not (tmp_path / "fairlead.db").exists()
    assert stored.read_bytes() == PRECIOUS
    (tmp_path / "elsewhere").rename(tmp_path / "fairlead.db")
    with Fairlead(tmp_path) as fairlead:
        assert fairlead.original(document.id) == PRECIOUS
