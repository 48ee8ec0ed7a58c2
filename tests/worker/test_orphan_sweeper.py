"""The sweep: what it removes, what it never touches, and that it can be told to end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from fairlead import Fairlead
from fairlead.model.blobs import SHORT_BYTES
from fairlead.worker.orphan_sweeper import Sweeper

DAY = 86_400
LONG = b"words " * SHORT_BYTES


def stored(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def orphan(folder: Path, key: str) -> Path:
    path = folder / key[:6] / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"nobody's")
    return path


@pytest.mark.services
def test_old_orphans_go_and_old_documents_stay(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        document, long = fairlead.submit_many("acme", [b"mine", LONG])
        fairlead.run_until_idle(workers=1)
        texts, files = fairlead.folder.texts, fairlead.folder.files
        known_paths = stored(files) + stored(texts)
        stale = orphan(texts, f"{document.id}.7.txt")  # of an attempt that came too late
        young = orphan(files, "01aaaaaaaaaaaaaaaaaaaaaaaa")
        old = orphan(files, "01bbbbbbbbbbbbbbbbbbbbbbbb")
        half = files / "incoming" / "01cccccccccccccccccccccccc"
        half.write_bytes(b"ha")
        for path in (*known_paths, stale, old, half):
            age(path, DAY + 10)
        assert fairlead.services.sweep() == 3
        assert {*stored(files), *stored(texts)} == {*known_paths, young}
        assert long.id in {path.name for path in known_paths}
        assert fairlead.text(document.id) == "mine"
        assert fairlead.original(document.id) == b"mine"
        assert fairlead.original(long.id) == LONG


def test_a_submission_under_way_keeps_its_files(tmp_path: Path) -> None:
    """Its bytes are on disk before its row is there."""
    with Fairlead(tmp_path) as fairlead:
        submit = fairlead.store.submit

        def sweep_first(submission):  # type: ignore[no-untyped-def]
            assert fairlead.services.sweep() == 0
            return submit(submission)

        fairlead.store.submit = sweep_first  # type: ignore[method-assign]
        document = fairlead.submit("acme", LONG)
        assert fairlead.original(document.id) == LONG


def test_it_ends_between_two_portions() -> None:
    sweep_began, may_go, swept = Event(), Event(), []

    def endless() -> Iterator[int]:
        while True:
            swept.append(1)
            sweep_began.set()
            may_go.wait()
            yield 1

    sweeper = Sweeper(endless)
    sweeper.start()
    sweep_began.wait()
    sweeper.request_stop()
    may_go.set()
    sweeper.join()
    assert swept == [1]


def test_an_error_of_the_disk_does_not_end_it() -> None:
    tried, errors = Event(), []

    def broken() -> Iterator[int]:
        errors.append(1)
        tried.set()
        raise OSError("the disk is tired")

    sweeper = Sweeper(broken)
    sweeper.start()
    tried.wait()
    assert sweeper.health().is_running
    sweeper.stop()
    assert errors == [1]
