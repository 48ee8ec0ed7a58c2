"""Storage that is absent is an outage, never a verdict on a document."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, get_ident
from typing import Any

import pytest
from apikit import served
from click.testing import CliRunner

from fairlead import Fairlead
from fairlead.blobs.marker import MARKER
from fairlead.cli import main
from fairlead.errors import FilesUnreachable, TemporarilyUnavailable
from fairlead.model.blobs import SHORT_BYTES
from fairlead.model.states import State
from fairlead.worker import engine as local
from fairlead.worker.sandbox import job_dir

LONG = b"a long document " * SHORT_BYTES


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data", settings={"retry_delay": 0.01}) as installation:
        yield installation


def unmount(fairlead: Fairlead) -> Path:
    """Leave an empty folder, as an absent mount does; return where the files are."""
    aside = fairlead.folder.path.with_name("aside")
    fairlead.folder.files.rename(aside)
    fairlead.folder.files.mkdir()
    return aside


def mount(fairlead: Fairlead, aside: Path) -> None:
    fairlead.folder.files.rmdir()
    aside.rename(fairlead.folder.files)


def test_two_first_uploads_write_the_marker_at_the_same_time(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them renamed the other's file, and was refused."""
    barrier, waited, fsync = Barrier(2, timeout=60), set[int](), os.fsync

    def fsync_together(descriptor: int) -> None:
        if get_ident() not in waited:
            waited.add(get_ident())
            barrier.wait()
        fsync(descriptor)

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(os, "fsync", fsync_together)
        submissions = [pool.submit(fairlead.files.check) for _ in range(2)]
    assert [submission.exception() for submission in submissions] == [None, None]


@pytest.mark.services
def test_documents_wait_while_their_folder_is_absent(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: 30 of 30 waiting documents failed as corrupt."""
    documents = [fairlead.submit("acme", LONG) for _ in range(3)]
    aside = unmount(fairlead)
    monkeypatch.setattr(local, "LONGEST_OUTAGE", 0.0)
    with pytest.raises(TemporarilyUnavailable, match="has no marker"):
        fairlead.run_until_idle(workers=1)
    current = [fairlead.document(document.id) for document in documents]
    assert {(document.state, document.attempts) for document in current} == {(State.WAITING, 0)}
    assert not list(fairlead.folder.files.iterdir())
    mount(fairlead, aside)
    fairlead.run_until_idle(workers=1)
    assert {fairlead.document(document.id).state for document in documents} == {State.DONE}


@pytest.mark.services
def test_a_folder_that_vanishes_while_documents_run_is_waited_for(fairlead: Fairlead) -> None:
    """What was claimed before the mount was lost is not corrupt either."""
    documents = [fairlead.submit("acme", LONG) for _ in range(3)]
    aside: list[Path] = []

    def tick() -> None:
        if engine.is_held_up and aside[0].exists():
            mount(fairlead, aside[0])
        totals = fairlead.queue.totals()
        if not totals.waiting + totals.processing:
            engine.stop()

    engine = fairlead.services.engine(1, on_tick=tick)
    checked = engine._check_blobs

    def lose_after_check() -> None:
        checked()
        if not aside:
            aside.append(unmount(fairlead))

    engine._check_blobs = lose_after_check  # type: ignore[method-assign]
    engine.run()
    current = [fairlead.document(document.id) for document in documents]
    assert {(document.state, document.attempts) for document in current} == {(State.DONE, 1)}


def test_uploads_and_downloads_are_refused_while_the_folder_is_absent(fairlead: Fairlead) -> None:
    """Regression: an upload was accepted, and its document was corrupt elsewhere."""
    document = fairlead.submit("acme", LONG)
    unmount(fairlead)
    with pytest.raises(FilesUnreachable):
        fairlead.submit("acme", LONG)
    with pytest.raises(FilesUnreachable):
        fairlead.original(document.id)
    assert fairlead.submit("acme", b"short").state is State.WAITING
    assert FilesUnreachable.status == 503


def test_an_existing_database_never_marks_an_empty_folder(fairlead: Fairlead) -> None:
    """Only a new database or a newly configured place writes the marker."""
    fairlead.check_places()
    (fairlead.folder.files / MARKER).unlink()
    with (
        Fairlead(fairlead.folder.path) as again,
        pytest.raises(FilesUnreachable, match="no marker"),
    ):
        again.check_places()
    assert not list(fairlead.folder.files.iterdir())


def test_the_folder_of_another_installation_is_unavailable(
    fairlead: Fairlead, tmp_path: Path
) -> None:
    """A foreign marker makes a place unavailable, and nothing there is swept."""
    fairlead.check_places()
    settings = {"files": str(fairlead.folder.path)}
    with Fairlead(tmp_path / "other", settings=settings) as other:
        with pytest.raises(FilesUnreachable, match="another installation"):
            other.check_places()
        with pytest.raises(FilesUnreachable):
            other.services.sweep()


def test_a_marker_that_a_crash_prevented_is_written_later(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the row and the marker does not make a place unavailable."""
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fairlead.check_places()
    with Fairlead(fairlead.folder.path) as again:
        again.check_places()


def interrupt(*_arguments: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.services
@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ENOENT])
def test_a_single_missing_file_is_retried_before_it_is_final(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """ESTALE and EIO count as absence; one failure is not yet a verdict."""
    document = fairlead.submit("acme", LONG)
    errors = [OSError(number, os.strerror(number))]
    put = job_dir._put

    def fail_once(source: Path | bytes, path: str) -> None:
        if errors:
            raise errors.pop()
        put(source, path)

    monkeypatch.setattr(job_dir, "_put", fail_once)
    fairlead.run_until_idle(workers=1)
    assert not errors
    assert fairlead.document(document.id).state is State.DONE


@pytest.mark.services
def test_the_doctor_and_readyz_report_an_absent_folder(fairlead: Fairlead) -> None:
    """Regression: `/readyz` said 200 and `doctor` ok."""
    fairlead.check_places()
    unmount(fairlead)
    outcome = CliRunner().invoke(main, ["doctor", "--data", str(fairlead.folder.path)])
    assert outcome.exit_code == 1
    assert "has no marker" in outcome.output
    with served(fairlead.folder.path, "--workers", "0") as server:
        assert server.operator.get("/readyz").status_code == 503
