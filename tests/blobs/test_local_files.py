"""Bytes in a local folder: all of a file or nothing, safe on disk, and checked when read."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest
from storekit import Clock, RulesInForce, fast_folder, new_document, sqlite_store

from fairlead.blobs import LocalBlobs
from fairlead.blobs.disk import Flusher, _syncfs_reports_errors
from fairlead.blobs.local import MEMORY_BYTES
from fairlead.errors import DamagedData, DiskFull, ReadOnlyData
from fairlead.model.blobs import HEAD_BYTES, SHORT_BYTES, StoredBlob
from fairlead.model.documents import Done, Submission
from fairlead.model.names import new_id
from fairlead.worker.orphan_sweeper import sweep_orphans

CONTENT = b"a letter\n" * 300_000  # more than one portion


def key(number: int = 0, now: float = 1_000_000.0) -> str:
    return new_id(now, f"{number:016}".encode())


def sha256(content: bytes = CONTENT) -> str:
    return hashlib.sha256(content).hexdigest()


def left_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def files(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "files")


@pytest.mark.parametrize("number", [1, 2, 20])
def test_what_was_stored_can_be_read(files: LocalBlobs, number: int) -> None:
    wanted = {key(index): f"content {index}".encode() for index in range(number)}
    files.put_all(list(wanted.items()))
    for name, content in wanted.items():
        assert files.read(name, sha256(content)) == content


def test_storing_nothing_is_nothing(files: LocalBlobs, tmp_path: Path) -> None:
    files.put_all([])
    assert files.keep_each([[], []]) == [[], []]
    assert list(tmp_path.iterdir()) == []


# --- what comes in pieces ---


@pytest.mark.parametrize("size", [1, SHORT_BYTES])
def test_what_is_short_stays_in_memory_for_the_store(
    files: LocalBlobs, tmp_path: Path, size: int
) -> None:
    content = bytes(number % 251 for number in range(size))
    file = files.begin(key())
    assert not any([file.add(content[: size // 2]), file.add(content[size // 2 :])])
    stored = StoredBlob(key(), size, sha256(content), content[:HEAD_BYTES], content)
    assert file.short() == stored
    file.discard()
    assert list(tmp_path.iterdir()) == []


def test_what_is_long_goes_to_disk_as_it_comes(files: LocalBlobs) -> None:
    file = files.begin(key())
    pieces = [CONTENT[at : at + 50_000] for at in range(0, len(CONTENT), 50_000)]
    flushes = []
    for number, piece in enumerate(pieces):
        if file.add(piece):
            file.flush()
            flushes.append(number)
    assert flushes == [20, 41]  # after a piece of 1 MiB each
    assert file.short() is None
    (stored,) = files.keep_each([[file]])
    assert stored == [StoredBlob(key(), len(CONTENT), sha256(), CONTENT[:HEAD_BYTES])]
    assert files.read(key(), sha256()) == CONTENT


def test_so_much_of_all_files_may_wait_in_memory(files: LocalBlobs) -> None:
    """Of short ones and of long ones; what is more is written as it comes."""
    short = bytes(SHORT_BYTES)
    arriving = [files.begin(key(number)) for number in range(MEMORY_BYTES // SHORT_BYTES)]
    assert not any(blob.add(short) for blob in arriving)
    late = files.begin(key(len(arriving)))
    assert late.add(b"x")
    late.flush()
    assert late.add(b"y")
    arriving[0].flush()
    assert not late.add(b"z")
    assert arriving[0].short() is None  # it is a file now
    handed = arriving[1].short()
    assert handed is not None
    assert handed.content == short
    for blob in arriving[2:]:
        blob.discard()
    outcomes = files.keep_each([[arriving[0]], [late]])
    assert [blobs[0].size for blobs in outcomes if isinstance(blobs, list)] == [SHORT_BYTES, 3]
    assert is_all_free(files)


def is_all_free(files: LocalBlobs) -> bool:
    """Whether nothing waits in memory."""
    arriving = [files.begin(key(number)) for number in range(MEMORY_BYTES // SHORT_BYTES + 1)]
    wants = [blob.add(bytes(SHORT_BYTES)) for blob in arriving]
    for blob in arriving:
        blob.discard()
    return wants == [False] * (len(arriving) - 1) + [True]


def test_what_is_short_can_be_a_file(files: LocalBlobs) -> None:
    """Where the store has no room for it."""
    unflushed, flushed = files.begin(key(1)), files.begin(key(2))
    for blob in (unflushed, flushed):
        blob.add(b"short")
    flushed.flush()
    assert flushed.short() is None
    assert files.keep_each([[unflushed], [flushed]]) == [
        [StoredBlob(key(number), 5, sha256(b"short"), b"short")] for number in (1, 2)
    ]
    assert files.read(key(1), sha256(b"short")) == b"short"


def test_what_was_written_and_is_discarded_leaves_nothing(
    files: LocalBlobs, tmp_path: Path
) -> None:
    file = files.begin(key())
    file.add(CONTENT)
    file.flush()
    assert left_in(tmp_path) != []
    for _ in range(2):
        file.discard()
    assert left_in(tmp_path) == []


def test_a_full_disk_is_told_in_our_words_as_it_comes(
    files: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file = files.begin(key())
    file.add(CONTENT)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DiskFull):
            file.flush()
    file.discard()
    assert is_all_free(files)


# --- all or nothing ---


def test_a_large_file_is_stored_whole(files: LocalBlobs) -> None:
    files.put_all([(key(), CONTENT)])
    assert files.read(key(), sha256()) == CONTENT


@pytest.mark.parametrize("number", [1, 3])
def test_an_error_while_files_get_their_names_leaves_nothing(
    files: LocalBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairlead.blobs.local.fsync_folder", full)
    monkeypatch.setattr("fairlead.blobs.disk.Flusher.flush", full)
    with pytest.raises(DiskFull):
        files.put_all([(key(index), CONTENT) for index in range(number)])
    assert left_in(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_told_in_our_words(
    files: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", forbidden)
    with pytest.raises(ReadOnlyData):
        files.put_all([(key(), CONTENT)])


# --- what is read is what was written ---


def test_a_changed_byte_is_noticed(files: LocalBlobs) -> None:
    files.put_all([(key(), CONTENT)])
    path = files.path(key())
    changed = bytearray(path.read_bytes())
    changed[1000] ^= 1
    path.write_bytes(changed)
    with pytest.raises(DamagedData):
        files.read(key(), sha256())


def test_a_missing_file_is_noticed(files: LocalBlobs) -> None:
    with pytest.raises(DamagedData):
        files.read(key(), "0" * 64)


def test_deleting_twice_is_deleting_once(files: LocalBlobs, tmp_path: Path) -> None:
    files.put_all([(key(), CONTENT)])
    files.delete([key()])
    files.delete([key()])
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    "name",
    [
        *("../../etc/passwd", "/etc/passwd", "", ".", "..", "abcdefgh/../x", "ABCDEFGHIJ"),
        *("a\0bcdefgh", "abcdefgh\n", "abcdefgh.", "abcdefgh.a.b.c", "é" * 26),
    ],
)
def test_a_name_never_becomes_a_path(files: LocalBlobs, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        files.path(name)
    with pytest.raises(ValueError, match="not a key"):
        files.put_all([(key(), CONTENT), (name, CONTENT)])
    assert left_in(tmp_path) == []


# --- durable before success is reported ---


class Synced:
    """What was fsynced, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[Path] = []
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.note)

    def note(self, descriptor: int) -> None:
        self.paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        self._fsync(descriptor)


def test_file_and_folders_are_synced_before_they_are_told(
    files: LocalBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = Synced(monkeypatch)
    files.put_all([(key(), CONTENT)])
    root = tmp_path / "files"
    assert synced.paths == [
        *(root / "incoming" / key(), files.path(key()).parent, root, tmp_path),
    ]


def test_many_files_share_one_flush_after_they_have_their_names(
    files: LocalBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []

    def flush(_: Flusher, folder: Path, number: int) -> None:
        there = [number for number in range(10) if files.path(key(number)).exists()]
        flushed.append((folder, number, len(there)))

    monkeypatch.setattr(Flusher, "flush", flush)
    monkeypatch.setattr("fairlead.blobs.disk._syncfs_reports_errors", lambda _release: True)
    files.put_all([(key(number), CONTENT) for number in range(10)])
    assert flushed == [(tmp_path / "files", 10, 10)]


def test_a_flush_that_fails_is_told_and_leaves_nothing(
    files: LocalBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def syncfs(self, _descriptor: int) -> int:
            ctypes.set_errno(errno.ENOSPC)
            return -1

    monkeypatch.setattr("fairlead.blobs.disk._libc", Broken)
    monkeypatch.setattr("fairlead.blobs.disk._syncfs_reports_errors", lambda _release: True)
    with pytest.raises(DiskFull):
        files.put_all([(key(number), CONTENT) for number in range(10)])
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("release", "tells"),
    [("4.19.0-amd64", False), ("5.7.9", False), ("5.8.0", True), ("6.1.0-28-amd64", True)],
)
def test_a_kernel_that_hides_errors_is_not_trusted(release: str, tells: bool) -> None:
    assert _syncfs_reports_errors(release) is tells


def test_every_file_of_many_is_synced_and_their_folder_once(
    files: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one flush for all is not to be had."""
    monkeypatch.setattr(Flusher, "is_worth_it", lambda _: False)
    files.put_all([(key(99), CONTENT)])
    synced = Synced(monkeypatch)
    files.put_all([(key(number), CONTENT) for number in range(10)])
    written = [path for path in synced.paths if path.parent.name == "incoming"]
    assert sorted(path.name for path in written) == sorted(key(number) for number in range(10))
    assert synced.paths[10:] == [files.path(key()).parent]


def test_a_folder_that_another_process_made_is_synced_too(
    files: LocalBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may not have got so far, or may have died before."""
    files.path(key()).parent.mkdir(parents=True)
    synced = Synced(monkeypatch)
    files.put_all([(key(), CONTENT)])
    assert tmp_path / "files" in synced.paths
    assert tmp_path in synced.paths


# --- what a crash leaves ---


class Crash(BaseException):
    """The machine stops: nothing of the program runs any more."""


def crash_before_rename(
    files: LocalBlobs, monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crash)
        patch.setattr(Path, "unlink", crash)
        with pytest.raises(Crash):
            files.put_all([(key, CONTENT) for key in keys])


def test_a_crash_before_the_rename_leaves_only_incoming_files(
    files: LocalBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_before_rename(files, monkeypatch, [key(1), key(2)])
    assert {path.parent.name for path in left_in(tmp_path)} == {"incoming"}
    newest = max(path.stat().st_mtime for path in left_in(tmp_path))
    assert files.sweep_incoming(newest - 10) == 0
    assert files.sweep_incoming(newest + 10) == 2
    assert left_in(tmp_path) == []


def test_what_a_crash_left_does_not_hinder_the_next_try(
    files: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_before_rename(files, monkeypatch, [key(1)])
    files.put_all([(key(1), b"once more")])
    assert files.read(key(1), sha256(b"once more")) == b"once more"


def test_sweeping_an_empty_house_is_nothing(files: LocalBlobs) -> None:
    assert files.sweep_incoming(1e12) == 0
    assert list(files.older_than(1e12)) == []


def test_the_sweep_removes_orphans_and_never_a_documents_file(tmp_path: Path) -> None:
    files, texts = LocalBlobs(tmp_path / "files"), LocalBlobs(tmp_path / "texts")
    document, orphan, young = (key(index, 1_000_000.0 + index * 5000) for index in (1, 2, 3))
    text, stale = f"{document}.1.txt", f"{document}.2.txt"
    files.put_all([(name, CONTENT) for name in (document, orphan, young)])
    texts.put_all([(name, CONTENT) for name in (text, stale)])
    for path in left_in(tmp_path):
        os.utime(path, (1000, 2000 if young in path.name else 1000))
    with fast_folder() as folder:
        store = sqlite_store(folder, RulesInForce(), Clock())
        store.submit(Submission("acme", (new_document()._replace(id=document),)))
        claim = store.claim("worker")
        assert claim is not None
        store.finish(claim, Done("text", {}, text, "0" * 64))
        assert sum(sweep_orphans(store, files, texts, before=1500)) == 2
        assert {path.name for path in left_in(tmp_path)} == {document, young, text}
        assert sum(sweep_orphans(store, files, texts, before=1500)) == 0
        store.close()


def test_the_sweep_leaves_strangers_alone(files: LocalBlobs) -> None:
    """Files of other programs in the folder are neither removed nor a reason to stop."""
    files.put_all([(key(), CONTENT)])
    folder = files.path(key()).parent
    (folder / "Notes.txt").write_text("mine")
    (folder / key(7, now=5_000_000.0)).write_text("in the wrong folder")
    (folder.parent / "notes").write_text("mine")
    assert list(files.older_than(1e12)) == [[key()]]


def test_files_are_not_for_everybody_to_write(files: LocalBlobs) -> None:
    files.put_all([(key(), CONTENT)])
    assert not files.path(key()).stat().st_mode & stat.S_IWOTH


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    files = LocalBlobs(tmp_path / "files")
    files.put_all([("0123456789abcdef", b"secret")])
    path = files.path("0123456789abcdef")
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    assert (tmp_path / "files").stat().st_mode & 0o077 == 0
