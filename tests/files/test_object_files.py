"""Bytes in object storage, on a server that really speaks S3: the same promises as a folder's."""

from __future__ import annotations

import hashlib
import logging
import time
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import obstore
import pytest
from moto.server import ThreadedMotoServer

from fairlead import Fairlead
from fairlead.errors import (
    DamagedData,
    FilesUnreachable,
    InvalidSetting,
    TooLarge,
    UnreadableSource,
)
from fairlead.files.objects import ObjectFiles, object_store
from fairlead.ids import new_id
from fairlead.ports import Opener

CONTENT = b"a letter\n" * 700_000  # more than one portion


def key(number: int = 0, now: float = 1_000_000.0) -> str:
    return new_id(now, bytes([number] * 9 + [1]))


def source(content: bytes = CONTENT) -> Opener:
    return lambda: BytesIO(content)


def broken_source() -> BytesIO:
    raise OSError(5, "the disk of the sender is broken")


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
def files(url: str, tmp_path: Path) -> ObjectFiles:
    return ObjectFiles(object_store(url, "files"), tmp_path / "scratch")


def stored_in(url: str) -> list[str]:
    return [each["path"] for page in obstore.list(object_store(url, "")) for each in page]


def left_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("number", [1, 2, 20])
def test_what_was_stored_can_be_read(files: ObjectFiles, tmp_path: Path, number: int) -> None:
    wanted = {key(each): f"content {each}".encode() for each in range(number)}
    stored = files.put_all([(each, source(content)) for each, content in wanted.items()])
    assert [each.key for each in stored] == list(wanted)
    for each in stored:
        assert files.read(each.key, each.sha256) == wanted[each.key]
        assert (each.size, each.head) == (len(wanted[each.key]), wanted[each.key])
        assert each.sha256 == hashlib.sha256(wanted[each.key]).hexdigest()
    assert left_in(tmp_path / "scratch") == []


def test_a_long_file_is_fetched_once_and_whole(files: ObjectFiles, url: str) -> None:
    (stored,) = files.put_all([(key(), source())])
    path = files.path(stored.key)
    assert path.read_bytes() == CONTENT
    obstore.delete(object_store(url, "files"), [f"{stored.key[:6]}/{stored.key}"])
    assert files.path(stored.key).read_bytes() == CONTENT


def test_a_file_that_is_gone_has_a_path_where_nothing_is(files: ObjectFiles) -> None:
    assert not files.path(key(7)).exists()
    with pytest.raises(DamagedData, match="gone"):
        files.read(key(7), "0" * 64)


def test_other_bytes_than_were_stored_are_not_handed_out(files: ObjectFiles, url: str) -> None:
    (stored,) = files.put_all([(key(), source(b"right"))])
    obstore.put(object_store(url, "files"), f"{stored.key[:6]}/{stored.key}", b"wrong")
    with pytest.raises(DamagedData, match="SHA-256"):
        files.read(stored.key, stored.sha256)


def test_one_that_cannot_be_stored_leaves_nothing_of_the_others(
    files: ObjectFiles, url: str, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableSource):
        files.put_all([(key(1), source(b"fine")), (key(2), broken_source)])
    with pytest.raises(TooLarge):
        files.put_all([(key(1), source(b"fine")), (key(2), source())], limit=1000)
    assert stored_in(url) == []
    assert left_in(tmp_path / "scratch") == []


def test_what_comes_in_pieces_is_kept_by_groups(files: ObjectFiles, url: str) -> None:
    whole, refused = files.begin(key(1)), files.begin(key(2))
    for piece in (CONTENT[:100_000], CONTENT[100_000:]):
        if whole.add(piece):
            whole.flush()
    refused.add(b"never kept")
    refused.discard()
    kept, none = files.keep_each([[whole], []])
    assert not isinstance(kept, Exception)
    assert none == []
    assert files.read(key(1), kept[0].sha256) == CONTENT
    assert [each.rpartition("/")[2] for each in stored_in(url)] == [key(1)]


def test_removed_files_are_gone_and_others_stay(files: ObjectFiles) -> None:
    files.put_all([(key(each), source(b"x")) for each in range(3)])
    files.path(key(0))
    files.delete([key(0), key(1), key(9)])
    files.delete([])
    assert not files.path(key(0)).exists()
    assert [each for page in files.older_than(time.time() + 60) for each in page] == [key(2)]
    assert list(files.older_than(time.time() - 3600)) == []


def test_a_service_that_is_away_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    store = object_store("s3://bucket?endpoint=http://127.0.0.1:1&region=us-east-1", "files")
    files = ObjectFiles(store, tmp_path / "scratch")
    with pytest.raises(FilesUnreachable, match="does not serve"):
        files.put_all([(key(), source(b"x"))])
    (kept,) = files.keep_each([[files.begin(key())]])
    assert isinstance(kept, FilesUnreachable)
    assert left_in(tmp_path / "scratch") == []


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
        assert fairlead.text(document.id).split() == long.decode().split()
        assert fairlead.content(document.id) == long
        fairlead.delete(document.id)
        fairlead.delete(short.id)
    assert stored_in(url) == []
