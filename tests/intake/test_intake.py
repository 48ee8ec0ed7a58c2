"""Intake: what may come in, and that nothing of what is refused stays."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from storekit import Clock, RulesInForce, sqlite_store

from fairlead.core.documents import CustomerSettings, Document, Submission
from fairlead.errors import (
    DataError,
    EmptyDocument,
    IdempotencyConflict,
    InvalidCustomer,
    InvalidName,
    PendingCapReached,
    TooLarge,
    UnknownCustomer,
    UnreadableSource,
)
from fairlead.files import LocalFiles
from fairlead.intake import Intake
from fairlead.ports import Store

LIMIT = 1000


class Desk(NamedTuple):
    """An intake with what it writes to."""

    intake: Intake
    store: Store
    files: LocalFiles
    folder: Path

    def take(self, content: bytes = b"content", name: str | None = None, **how: object) -> Document:
        return self.intake.submit("acme", [(content, name)], **how)[0]  # type: ignore[arg-type]

    def kept(self) -> set[str]:
        return {path.name for path in self.folder.rglob("*") if path.is_file()}

    def is_as_new(self) -> bool:
        return self.kept() == set() and self.store.documents() == []


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    clock = Clock()
    store = sqlite_store(tmp_path, RulesInForce(), clock)
    files = LocalFiles(tmp_path / "files")
    yield Desk(
        *(Intake(store, files, limit=lambda: LIMIT, clock=clock), store, files),
        tmp_path / "files",
    )
    assert store.problems() == []
    store.close()


# --- what is accepted ---


def test_bytes_a_path_and_an_open_file_come_in_alike(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(b"content")
    with path.open("rb") as file:
        documents = desk.intake.submit(
            "acme", [(b"content", None), (path, None), (str(path), None), (file, None)]
        )
    assert [each.name for each in documents] == ["document"] + ["letter.txt"] * 3
    assert len({each.sha256 for each in documents}) == 1
    for each in documents:
        assert desk.files.read(each.id, each.sha256) == b"content"
        assert each.size == 7


def test_a_stream_without_a_name_gets_one(desk: Desk) -> None:
    assert desk.intake.submit("acme", [(io.BytesIO(b"content"), None)])[0].name == "document"


def test_nothing_to_submit_is_nothing(desk: Desk) -> None:
    assert desk.intake.submit("acme", []) == []
    assert desk.store.customers() == []


@pytest.mark.parametrize(
    "name", ["Übersicht März.pdf", "请求.docx", "a b.txt", "...", "-rf", "x" * 255]
)
def test_any_printable_name_is_kept_as_it_is(desk: Desk, name: str) -> None:
    assert desk.take(name=name).name == name


def test_the_name_of_a_path_never_becomes_a_path_of_ours(desk: Desk) -> None:
    document = desk.take(name="passwd")
    assert desk.kept() == {document.id}


# --- what is refused, and leaves nothing ---


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "/etc/passwd", "a/b", "a\\b", ".", "..", "", "x" * 5000, "x" * 256),
        *("a\nb", "a\0b", "\x1b[31m", "a\x7f", "a\u2028b", "\udcff", "a\ud800"),
    ],
)
def test_a_bad_name_is_refused(desk: Desk, name: str) -> None:
    with pytest.raises(InvalidName) as refused:
        desk.take(name=name)
    str(refused.value).encode()  # can be shown and logged
    assert desk.is_as_new()


@pytest.mark.parametrize(
    "customer", ["", " acme", "acme ", "a\nb", "a\0b", "\udcff", "x" * 201, "\u2029", "\t"]
)
def test_a_bad_customer_is_refused(desk: Desk, customer: str) -> None:
    with pytest.raises(InvalidCustomer) as refused:
        desk.intake.submit(customer, [(b"content", None)])
    str(refused.value).encode()
    assert desk.is_as_new()


def test_an_empty_document_is_refused(desk: Desk, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    for source in (b"", empty, io.BytesIO()):
        with pytest.raises(EmptyDocument):
            desk.intake.submit("acme", [(b"content", None), (source, "empty.txt")])
    assert desk.is_as_new()


def test_a_document_over_the_limit_is_refused(desk: Desk) -> None:
    assert desk.take(b"x" * LIMIT).size == LIMIT
    before = desk.kept()
    with pytest.raises(TooLarge):
        desk.take(b"x" * (LIMIT + 1))
    assert desk.kept() == before


@pytest.mark.parametrize("what", ["missing", "folder", "pipe", "nul"])
def test_what_is_no_file_is_refused(desk: Desk, tmp_path: Path, what: str) -> None:
    path = tmp_path / ("a\0b" if what == "nul" else what)
    if what == "folder":
        path.mkdir()
    if what == "pipe":
        os.mkfifo(path)
    with pytest.raises(UnreadableSource):
        desk.intake.submit("acme", [(b"content", None), (path, None)])
    assert desk.is_as_new()


def test_a_file_that_may_not_be_read_is_refused(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.txt"
    path.write_bytes(b"content")
    forbid_reading(path, monkeypatch)
    with pytest.raises(UnreadableSource):
        desk.intake.submit("acme", [(path, None)])
    assert desk.is_as_new()


def forbid_reading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its mode, or, as nothing is forbidden to root, by what opening it says."""
    path.chmod(0)
    if os.access(path, os.R_OK):
        opened = Path.open

        def open_(self: Path, *args: object, **others: object) -> object:
            if self == path:
                raise PermissionError(13, "Permission denied")
            return opened(self, *args, **others)  # type: ignore[call-overload]

        monkeypatch.setattr(Path, "open", open_)


def test_a_file_that_is_open_as_text_is_refused(desk: Desk) -> None:
    with pytest.raises(UnreadableSource, match="rb"):
        desk.intake.submit("acme", [(io.StringIO("content"), None)])  # type: ignore[list-item]
    assert desk.is_as_new()


def test_a_file_that_vanishes_on_the_way_is_refused(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(b"content")
    put_all = desk.files.put_all

    def vanish(sources: object, **others: object) -> object:
        path.unlink()
        return put_all(sources, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(desk.files, "put_all", vanish)
    with pytest.raises(UnreadableSource):
        desk.intake.submit("acme", [(path, None)])
    assert desk.is_as_new()


def test_what_the_store_refuses_leaves_no_file(desk: Desk) -> None:
    with pytest.raises(UnknownCustomer):
        desk.take(strict=True)
    assert desk.is_as_new()
    desk.store.add_customer("acme")
    desk.store.set_customer("acme", CustomerSettings(pending_cap=1))
    with pytest.raises(PendingCapReached):
        desk.intake.submit("acme", [(b"one", None), (b"two", None)])
    assert desk.is_as_new()
    assert desk.take().count == 0


def test_an_error_after_the_commit_costs_no_file(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer got lost, the rows are there: then so must be the bytes."""
    submit = desk.store.submit

    def committed_and_lost(submission: Submission) -> list[Document]:
        submit(submission)
        raise DataError("the connection broke")

    monkeypatch.setattr(desk.store, "submit", committed_and_lost)
    with pytest.raises(DataError):
        desk.take()
    (document,) = desk.store.documents()
    assert desk.files.read(document.id, document.sha256) == b"content"


def test_bytes_are_safe_before_the_row_is_there(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = desk.store.submit
    kept_before = []

    def look_first(submission: Submission) -> list[Document]:
        kept_before.append(desk.kept() == {each.id for each in submission.documents})
        return submit(submission)

    monkeypatch.setattr(desk.store, "submit", look_first)
    desk.intake.submit("acme", [(b"one", None), (b"two", None)])
    assert kept_before == [True]


# --- idempotency ---


def test_a_repeat_leaves_no_second_file(desk: Desk) -> None:
    first = desk.take(key="k")
    assert desk.take(key="k") == first
    assert desk.kept() == {first.id}


@pytest.mark.parametrize(
    "other",
    [{"content": b"other"}, {"name": "other"}, {"urgent": True}],
    ids=["content", "name", "urgent"],
)
def test_another_body_is_a_conflict_and_leaves_no_file(
    desk: Desk, other: dict[str, object]
) -> None:
    first = desk.take(name="a", key="k")
    with pytest.raises(IdempotencyConflict):
        desk.take(**{"name": "a", "key": "k", **other})  # type: ignore[arg-type]
    assert desk.kept() == {first.id}


def test_names_and_contents_cannot_be_mixed_up(desk: Desk) -> None:
    """The same names and the same contents, put together in another way, are another body."""
    desk.intake.submit("acme", [(b"1", "a"), (b"2", "b")], key="k")
    for other in ([(b"2", "a"), (b"1", "b")], [(b"2", "b"), (b"1", "a")], [(b"1", "a")]):
        with pytest.raises(IdempotencyConflict):
            desk.intake.submit("acme", other, key="k")
    assert len(desk.kept()) == 2
