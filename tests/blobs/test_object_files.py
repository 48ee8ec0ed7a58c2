"""Bytes in object storage, on a server that really speaks S3: the same promises as a folder's."""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from threading import Barrier, Event
from typing import Any

import obstore
import pytest
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

from fairlead import Fairlead
from fairlead.blobs.object_storage import ObjectStorageBlobs, object_store
from fairlead.errors import DamagedData, DataError, DiskFull, FilesUnreachable, InvalidSetting
from fairlead.model.names import new_id

pytestmark = pytest.mark.services

CONTENT = b"a letter\n" * 700_000  # more than one portion


def key(number: int = 0, now: float = 1_000_000.0) -> str:
    return new_id(now, bytes([number] * 16))


def sha256(content: bytes = CONTENT) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """A service on the loopback, and its address."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def url(service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of its own."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    name = "b" + hashlib.sha256(bytes(tmp_path)).hexdigest()[:20]
    urllib.request.urlopen(urllib.request.Request(f"{service}/{name}", method="PUT")).close()
    return f"s3://{name}/some/prefix?endpoint={service}&region=us-east-1"


@pytest.fixture
def files(url: str, tmp_path: Path) -> ObjectStorageBlobs:
    return ObjectStorageBlobs(object_store(url, "files"), tmp_path / "scratch")


def stored_in(url: str) -> list[str]:
    return [entry["path"] for page in obstore.list(object_store(url, "")) for entry in page]


def left_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("number", [1, 2, 20])
def test_what_was_stored_can_be_read(
    files: ObjectStorageBlobs, tmp_path: Path, number: int
) -> None:
    wanted = {key(index): f"content {index}".encode() for index in range(number)}
    files.put_all(list(wanted.items()))
    for name, content in wanted.items():
        assert files.read(name, sha256(content)) == content
    assert left_in(tmp_path / "scratch") == []


def test_a_long_file_is_fetched_once_and_whole(files: ObjectStorageBlobs, url: str) -> None:
    files.put_all([(key(), CONTENT)])
    path = files.path(key())
    assert path.read_bytes() == CONTENT
    obstore.delete(object_store(url, "files"), [f"{key()[:6]}/{key()}"])
    assert files.path(key()).read_bytes() == CONTENT


def test_who_fetches_one_file_does_not_wait_for_another(
    files: ObjectStorageBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers that want the same file do wait, because it is fetched once."""
    files.put_all([(key(1), b"slow"), (key(2), b"quick")])
    get, requested, may_come = obstore.get, Queue[str](), Event()

    def slowly(where: S3Store, path: str) -> obstore.GetResult:
        requested.put(path)
        if path.endswith(key(1)):
            may_come.wait()
        return get(where, path)

    monkeypatch.setattr(obstore, "get", slowly)
    with ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(files.path, key(1)) for _ in range(2)]
        assert requested.get().endswith(key(1))
        assert files.path(key(2)).read_bytes() == b"quick"
        may_come.set()
        assert [future.result().read_bytes() for future in slow] == [b"slow", b"slow"]
    assert requested.get().endswith(key(2))
    assert requested.empty()


def test_texts_of_one_document_are_fetched_beside_each_other(
    files: ObjectStorageBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their names differ in their last part only."""
    names = [f"{key()}.1.txt", f"{key()}.1.md"]
    files.put_all([(name, name.encode()) for name in names])
    both, get = Barrier(2), obstore.get

    def together(where: S3Store, path: str) -> obstore.GetResult:
        both.wait()
        return get(where, path)

    monkeypatch.setattr(obstore, "get", together)
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(files.path, names))
    assert [path.read_text() for path in paths] == names


def test_a_file_that_is_gone_has_a_path_where_nothing_is(files: ObjectStorageBlobs) -> None:
    assert not files.path(key(7)).exists()
    with pytest.raises(DamagedData, match="missing"):
        files.read(key(7), "0" * 64)


def test_other_bytes_than_were_stored_are_not_handed_out(
    files: ObjectStorageBlobs, url: str
) -> None:
    files.put_all([(key(), b"right")])
    obstore.put(object_store(url, "files"), f"{key()[:6]}/{key()}", b"wrong")
    with pytest.raises(DamagedData, match="SHA-256"):
        files.read(key(), sha256(b"right"))


def test_one_that_cannot_be_stored_leaves_nothing_of_the_others(
    files: ObjectStorageBlobs, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = obstore.put

    def fails_once(where: S3Store, path: str, content: bytes) -> None:
        if path.endswith(key(2)):
            raise OSError(5, "the line is dead")
        put(where, path, content)

    monkeypatch.setattr(obstore, "put", fails_once)
    with pytest.raises(DataError, match="the line is dead"):
        files.put_all([(key(1), b"fine"), (key(2), b"not")])
    assert stored_in(url) == []
    assert left_in(tmp_path / "scratch") == []


def test_what_comes_in_pieces_is_kept_by_groups(files: ObjectStorageBlobs, url: str) -> None:
    whole, refused = files.begin(key(1)), files.begin(key(2))
    for piece in (CONTENT[:100_000], CONTENT[100_000:]):
        if whole.add(piece):
            whole.flush()
    refused.add(b"never kept")
    refused.discard()
    stored, none = files.keep_each([[whole], []])
    assert not isinstance(stored, Exception)
    assert none == []
    assert files.read(key(1), stored[0].sha256) == CONTENT
    assert [key.rpartition("/")[2] for key in stored_in(url)] == [key(1)]


def test_removed_files_are_gone_and_others_stay(files: ObjectStorageBlobs) -> None:
    files.put_all([(key(number), b"x") for number in range(3)])
    files.path(key(0))
    files.delete([key(0), key(1), key(9)])
    files.delete([])
    assert not files.path(key(0)).exists()
    assert [old for page in files.older_than(time.time() + 60) for old in page] == [key(2)]
    assert list(files.older_than(time.time() - 3600)) == []


def test_what_is_removed_while_it_is_fetched_leaves_nothing(
    files: ObjectStorageBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.put_all([(key(), b"secret")])
    get, delete, got, is_removed = obstore.get, obstore.delete, Event(), Event()

    def slowly(where: S3Store, path: str) -> obstore.GetResult:
        result = get(where, path)
        got.set()
        is_removed.wait()
        return result

    def removed(where: S3Store, paths: list[str]) -> None:
        delete(where, paths)
        is_removed.set()

    monkeypatch.setattr(obstore, "get", slowly)
    monkeypatch.setattr(obstore, "delete", removed)
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(files.path, key())
        got.wait()
        files.delete([key()])
        fetched.result()
    assert left_in(tmp_path / "scratch") == []


def test_a_service_that_is_away_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    store = object_store("s3://bucket?endpoint=http://127.0.0.1:1&region=us-east-1", "files")
    files = ObjectStorageBlobs(store, tmp_path / "scratch")
    with pytest.raises(FilesUnreachable, match="is unreachable"):
        files.put_all([(key(), b"x")])
    (outcome,) = files.keep_each([[files.begin(key())]])
    assert isinstance(outcome, FilesUnreachable)
    assert left_in(tmp_path / "scratch") == []


def test_what_is_fetched_may_find_our_own_disk_full(
    files: ObjectStorageBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning of it does not stay: it may be what fills the disk."""
    files.put_all([(key(), b"x" * 100_000)])

    class OnFullDisk(io.FileIO):
        def write(self, content: Any) -> int:
            super().write(memoryview(content)[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("fairlead.blobs.object_storage.os.fdopen", OnFullDisk)
        with pytest.raises(DiskFull, match="free some space"):
            files.path(key())
    assert not list(tmp_path.rglob("*.coming"))
    assert files.path(key()).read_bytes() == b"x" * 100_000


@pytest.mark.parametrize("url", ["s3://", "s3://b?secret_access_key=x", "gs://b", "s3:///x"])
def test_an_address_that_is_none_is_said_so(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="files must be"):
        Fairlead(tmp_path, settings={"files": url})


def test_an_installation_works_on_object_storage(url: str, tmp_path: Path) -> None:
    long = b"a word " * 30_000
    with Fairlead(tmp_path / "one", settings={"files": url}) as fairlead:
        short = fairlead.submit("acme", b"hello", name="1.txt")
        document = fairlead.submit("acme", long, name="2.txt")
        fairlead.run_until_idle(workers=1)
        assert fairlead.text(short.id) == "hello"
        assert fairlead.original(short.id) == b"hello"
        assert not [key for key in stored_in(url) if short.id in key]
        assert fairlead.text(document.id).split() == long.decode().split()
        assert fairlead.original(document.id) == long
        fairlead.delete(document.id)
        fairlead.delete(short.id)
    assert {key.rpartition("/")[2] for key in stored_in(url)} == {"fairlead-installation"}
