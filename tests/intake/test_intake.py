"""Intake: what may come in, and that nothing of what is refused stays."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from storekit import Clock, RulesInForce, sqlite_store

from fairlead import intake
from fairlead.blobs import LocalBlobs
from fairlead.blobs.local import LocalIncomingBlob
from fairlead.errors import (
    DataError,
    DiskFull,
    EmptyDocument,
    FilesUnreachable,
    IdempotencyConflict,
    InvalidCustomer,
    InvalidName,
    PendingCapReached,
    TooLarge,
    UnknownCustomer,
    UnreadableSource,
    UsageError,
)
from fairlead.intake import Intake, Offer
from fairlead.model.blobs import SHORT_BYTES
from fairlead.model.documents import Document, Submission
from fairlead.model.sources import Source
from fairlead.model.submissions import SubmissionOptions
from fairlead.storage import Store

LIMIT = 300_000
SHORT, LONG = b"content", b"long " * 20_000
BOTH = pytest.mark.parametrize("content", [SHORT, LONG], ids=["short", "long"])


class IntakeKit(NamedTuple):
    """An intake with what it writes to."""

    intake: Intake
    store: Store
    files: LocalBlobs
    folder: Path

    def take(self, content: bytes = SHORT, name: str | None = None, **how: object) -> Document:
        return self.intake.submit("acme", [(content, name)], **how)[0]  # type: ignore[arg-type]

    def read(self, document: Document) -> bytes:
        """What is kept of it, in the store or else as a file."""
        kept = self.store.original(document.id)
        return self.files.read(document.id, document.sha256) if kept is None else kept

    def kept(self) -> set[str]:
        return {path.name for path in self.folder.rglob("*") if path.is_file()}

    def is_as_new(self) -> bool:
        return self.kept() == set() and self.store.documents() == []


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[IntakeKit]:
    clock = Clock()
    store = sqlite_store(tmp_path, RulesInForce(), clock)
    files = LocalBlobs(tmp_path / "files")
    yield IntakeKit(
        *(Intake(store, files, limit=lambda: LIMIT, clock=clock), store, files),
        tmp_path / "files",
    )
    assert store.problems() == []
    store.close()


# --- what is accepted ---


@pytest.mark.parametrize("own", ["a\nb.txt", "caf\udce9.txt"], ids=["newline", "not UTF-8"])
def test_a_name_that_is_given_stands_for_any_of_the_files(
    kit: IntakeKit, tmp_path: Path, own: str
) -> None:
    path = tmp_path / own
    path.write_bytes(SHORT)
    with pytest.raises(InvalidName, match="rename it") as refused:
        kit.intake.submit("acme", [(path, None)])
    assert ascii(str(path)) in str(refused.value)
    (document,) = kit.intake.submit("acme", [(path, "good.txt")])
    assert document.name == "good.txt"


@BOTH
def test_bytes_a_path_and_an_open_file_come_in_alike(
    kit: IntakeKit, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with path.open("rb") as file:
        documents = kit.intake.submit(
            "acme", [(content, None), (path, None), (str(path), None), (file, None)]
        )
    assert [each.name for each in documents] == ["document"] + ["letter.txt"] * 3
    assert len({each.sha256 for each in documents}) == 1
    for each in documents:
        assert kit.read(each) == content
        assert each.size == len(content)
        assert each.sha256 == hashlib.sha256(content).hexdigest()
    assert kit.kept() == ({each.id for each in documents} if content == LONG else set())


def test_short_ones_touch_no_folder_and_long_ones_are_files(kit: IntakeKit) -> None:
    kit.take(b"x" * SHORT_BYTES)
    assert not kit.folder.exists()
    contents = [b"one", b"x" * (SHORT_BYTES + 1), b"three", LONG]
    documents = kit.intake.submit("acme", [(each, None) for each in contents])
    assert [kit.read(each) for each in documents] == contents
    assert kit.kept() == {documents[1].id, documents[3].id}


def test_a_blob_that_cannot_be_deleted_refuses_no_other_upload(
    kit: IntakeKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_options: object) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    (first,) = kit.intake.accept_each([offer(kit, LONG, key="k")])
    repeated = offer(kit, LONG, key="k")
    other = offer(kit, SHORT, customer="globex")
    with monkeypatch.context() as broken_disk:
        broken_disk.setattr(Path, "unlink", refuse)
        accepted, again = kit.intake.accept_each([other, repeated])
    assert isinstance(accepted, list)
    assert again == first


def test_a_stream_that_comes_in_drops_may_be_short_or_long(kit: IntakeKit) -> None:
    class Drops(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 1000))

    for content in (SHORT, b"x" * SHORT_BYTES, LONG):
        (document,) = kit.intake.submit("acme", [(Drops(content), None)])
        assert kit.read(document) == content
    assert kit.kept() == {document.id}


def test_what_is_too_much_for_one_commit_becomes_files(
    kit: IntakeKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "SHORT_TOGETHER", 10)
    contents = [b"1234", LONG, b"123456", b"1", b"12"]
    documents = kit.intake.submit("acme", [(each, None) for each in contents])
    assert [kit.read(each) for each in documents] == contents
    assert kit.kept() == {documents[number].id for number in (1, 3, 4)}


def offer(
    kit: IntakeKit, *contents: bytes, customer: str = "acme", key: str | None = None
) -> Offer:
    files = []
    for number, content in enumerate(contents):
        file = kit.intake.begin()
        if file.add(content):
            file.flush()
        files.append((file, f"{number}.txt"))
    return Offer(customer, files, key=key)


def test_what_comes_in_pieces_is_kept_alike(
    kit: IntakeKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "SHORT_TOGETHER", 20)
    contents = [(b"1" * 9, LONG, b"2" * 9), (b"3" * 9,), (LONG,), (b"5",)]
    answers = kit.intake.accept_each([offer(kit, *each) for each in contents])
    documents = [each for answer in answers if isinstance(answer, list) for each in answer]
    assert [kit.read(each) for each in documents] == [each for some in contents for each in some]
    assert kit.kept() == {documents[number].id for number in (1, 3, 4)}


def test_one_offer_that_is_refused_leaves_the_others(kit: IntakeKit) -> None:
    kit.store.add_customer("full", pending_cap=1)
    offers = [offer(kit, SHORT, LONG, customer=name) for name in ("acme", "full", "globex")]
    first, refused, last = kit.intake.accept_each(offers)
    assert isinstance(refused, PendingCapReached)
    assert isinstance(first, list)
    assert isinstance(last, list)
    assert [kit.read(each) for each in first + last] == [SHORT, LONG] * 2
    assert kit.kept() == {first[1].id, last[1].id}


def test_an_offer_that_comes_again_leaves_no_second_file(kit: IntakeKit) -> None:
    for _ in range(2):
        (answer,) = kit.intake.accept_each([offer(kit, SHORT, LONG, key="k")])
    assert isinstance(answer, list)
    assert kit.kept() == {answer[1].id}
    assert len(kit.store.documents()) == 2


def test_a_disk_that_is_full_takes_short_ones_only_with_their_group(
    kit: IntakeKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files cannot be written; the store, on another disk, still can."""
    offers = [offer(kit, SHORT), offer(kit, SHORT, LONG)]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairlead.blobs.local.fsync_path", full)
    good, bad = kit.intake.accept_each(offers)
    assert isinstance(good, list)
    assert isinstance(bad, DiskFull)
    assert [kit.read(each) for each in kit.store.documents()] == [SHORT]
    with pytest.raises(DiskFull):
        kit.intake.submit("acme", [(SHORT, None), (LONG, None)])
    assert kit.kept() == set()
    assert len(kit.store.documents()) == 1


def test_a_stream_without_a_name_gets_one(kit: IntakeKit) -> None:
    assert kit.intake.submit("acme", [(io.BytesIO(b"content"), None)])[0].name == "document"


def test_nothing_to_submit_is_nothing(kit: IntakeKit) -> None:
    assert kit.intake.submit("acme", []) == []
    assert kit.store.customers() == []


@pytest.mark.parametrize(
    "name", ["Übersicht März.pdf", "请求.docx", "a b.txt", "...", "-rf", "x" * 255]
)
def test_any_printable_name_is_kept_as_it_is(kit: IntakeKit, name: str) -> None:
    assert kit.take(name=name).name == name


def test_the_name_of_a_path_never_becomes_a_path_of_ours(kit: IntakeKit) -> None:
    document = kit.take(LONG, name="passwd")
    assert kit.kept() == {document.id}


# --- what is refused, and leaves nothing ---


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "/etc/passwd", "a/b", "a\\b", ".", "..", "", "x" * 5000, "x" * 256),
        *("a\nb", "a\0b", "\x1b[31m", "a\x7f", "a\u2028b", "\udcff", "a\ud800"),
    ],
)
def test_a_bad_name_is_refused(kit: IntakeKit, name: str) -> None:
    with pytest.raises(InvalidName) as refused:
        kit.take(name=name)
    str(refused.value).encode()  # can be shown and logged
    assert kit.is_as_new()


def test_an_empty_name_is_not_to_be_shorter(kit: IntakeKit) -> None:
    with pytest.raises(InvalidName, match="must not be empty; give one, or leave it out"):
        kit.take(name="")


@pytest.mark.parametrize(
    "customer", ["", " acme", "acme ", "a\nb", "a\0b", "\udcff", "x" * 201, "\u2029", "\t"]
)
def test_a_bad_customer_is_refused(kit: IntakeKit, customer: str) -> None:
    with pytest.raises(InvalidCustomer) as refused:
        kit.intake.submit(customer, [(b"content", None)])
    str(refused.value).encode()
    assert kit.is_as_new()


def test_an_empty_document_is_refused(kit: IntakeKit, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    for source in (b"", empty, io.BytesIO()):
        with pytest.raises(EmptyDocument):
            kit.intake.submit("acme", [(SHORT, None), (LONG, None), (source, "empty.txt")])
    assert kit.is_as_new()


def test_a_document_over_the_limit_is_refused(kit: IntakeKit) -> None:
    assert kit.take(b"x" * LIMIT).size == LIMIT
    before = kit.kept()
    with pytest.raises(TooLarge):
        kit.take(b"x" * (LIMIT + 1))
    assert kit.kept() == before


@pytest.mark.parametrize("what", ["missing", "folder", "pipe", "nul"])
def test_what_is_no_file_is_refused(kit: IntakeKit, tmp_path: Path, what: str) -> None:
    path = tmp_path / ("a\0b" if what == "nul" else what)
    if what == "folder":
        path.mkdir()
    if what == "pipe":
        os.mkfifo(path)
    with pytest.raises(UnreadableSource):
        kit.intake.submit("acme", [(b"content", None), (path, None)])
    assert kit.is_as_new()


def test_a_file_that_may_not_be_read_is_refused(
    kit: IntakeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.txt"
    path.write_bytes(b"content")
    forbid_reading(path, monkeypatch)
    with pytest.raises(UnreadableSource):
        kit.intake.submit("acme", [(path, None)])
    assert kit.is_as_new()


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


def test_a_file_that_is_open_as_text_is_refused(kit: IntakeKit) -> None:
    with pytest.raises(UsageError, match="rb"):
        kit.intake.submit("acme", [(io.StringIO("content"), None)])  # type: ignore[list-item]
    assert kit.is_as_new()


@pytest.mark.parametrize("source", [None, bytearray(b"x"), (each for each in (b"x",))])
def test_what_is_no_source_is_refused(kit: IntakeKit, source: Any) -> None:
    with pytest.raises(UsageError, match=type(source).__name__):
        kit.intake.submit("acme", [(source, None)])
    assert kit.is_as_new()


def test_a_file_that_does_not_wait_for_its_bytes_is_refused(kit: IntakeKit) -> None:
    """Else it would be cut off where it had none at the moment."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    os.write(theirs, b"first half")
    with (
        os.fdopen(theirs, "wb"),
        os.fdopen(ours, "rb", buffering=0) as file,
        pytest.raises(UnreadableSource, match="does not wait"),
    ):
        kit.intake.submit("acme", [(file, None)])
    assert kit.is_as_new()


@pytest.mark.parametrize("key", ["", " a", "ü", "x" * 256, "a\nb"])
def test_an_idempotency_key_is_one_that_could_travel(kit: IntakeKit, key: str) -> None:
    with pytest.raises(UsageError, match="Idempotency-Key"):
        kit.intake.submit("acme", [(b"content", None)], key=key)
    assert kit.is_as_new()


def test_a_file_that_vanishes_on_the_way_is_refused(
    kit: IntakeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(b"content")
    begin = kit.files.begin

    def vanish(key: str) -> LocalIncomingBlob:
        path.unlink(missing_ok=True)
        return begin(key)

    monkeypatch.setattr(kit.files, "begin", vanish)
    with pytest.raises(UnreadableSource):
        kit.intake.submit("acme", [(LONG, None), (path, None)])
    assert kit.is_as_new()


@BOTH
@pytest.mark.parametrize("place", [0, 1, 9])
def test_one_source_that_fails_leaves_nothing(kit: IntakeKit, content: bytes, place: int) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(5, "the line is dead")
            return super().read(len(content) - 1)

    sources: list[tuple[Source, None]] = [(content, None)] * 10
    sources[place] = (Broken(content), None)
    with pytest.raises(UnreadableSource, match="the line is dead"):
        kit.intake.submit("acme", sources)
    assert kit.is_as_new()


@BOTH
def test_what_the_store_refuses_leaves_no_file(kit: IntakeKit, content: bytes) -> None:
    with pytest.raises(UnknownCustomer):
        kit.take(content, strict=True)
    assert kit.is_as_new()
    kit.store.add_customer("acme", pending_cap=1)
    with pytest.raises(PendingCapReached):
        kit.intake.submit("acme", [(content, None), (b"two", None)])
    assert kit.is_as_new()
    assert kit.take(content).count == 0


@BOTH
def test_an_error_after_the_commit_costs_no_file(
    kit: IntakeKit, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """The answer got lost, the rows are there: then so must be the bytes."""
    submit = kit.store.submit

    def committed_and_lost(submission: Submission) -> list[Document]:
        submit(submission)
        raise DataError("the connection broke")

    monkeypatch.setattr(kit.store, "submit", committed_and_lost)
    with pytest.raises(DataError):
        kit.take(content)
    (document,) = kit.store.documents()
    assert kit.read(document) == content


def test_bytes_are_safe_before_the_row_is_there(
    kit: IntakeKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = kit.store.submit
    kept_before = []

    def look_first(submission: Submission) -> list[Document]:
        kept_before.append(kit.kept() == {each.id for each in submission.documents[:2]})
        return submit(submission)

    monkeypatch.setattr(kit.store, "submit", look_first)
    kit.intake.submit("acme", [(LONG, None), (LONG, None), (SHORT, None)])
    assert kept_before == [True]


# --- idempotency ---


@BOTH
def test_a_repeat_leaves_no_second_file(kit: IntakeKit, content: bytes) -> None:
    first = kit.take(content, key="k")
    assert kit.take(content, key="k") == first
    assert kit.kept() == ({first.id} if content == LONG else set())
    assert kit.read(first) == content


@pytest.mark.parametrize(
    "other",
    [
        {"content": LONG + b"other"},
        {"name": "other"},
        {"options": SubmissionOptions(urgent=True)},
    ],
    ids=["content", "name", "options"],
)
def test_another_body_is_a_conflict_and_leaves_no_file(
    kit: IntakeKit, other: dict[str, object]
) -> None:
    first = kit.take(LONG, name="a", key="k")
    with pytest.raises(IdempotencyConflict):
        kit.take(**{"content": LONG, "name": "a", "key": "k", **other})  # type: ignore[arg-type]
    assert kit.kept() == {first.id}


def test_names_and_contents_cannot_be_mixed_up(kit: IntakeKit) -> None:
    """The same names and the same contents, put together in another way, are another body."""
    kit.intake.submit("acme", [(b"1", "a"), (b"2", "b")], key="k")
    for other in ([(b"2", "a"), (b"1", "b")], [(b"2", "b"), (b"1", "a")], [(b"1", "a")]):
        with pytest.raises(IdempotencyConflict):
            kit.intake.submit("acme", other, key="k")
    assert len(kit.store.documents()) == 2


def test_a_spare_file_that_cannot_be_removed_is_no_reason_to_refuse(
    kit: IntakeKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the repeat nor what came beside it."""
    (first,) = accepted(kit.intake.accept_each([offer(kit, LONG, key="k")])[0])

    def refuse(_keys: object) -> None:
        raise FilesUnreachable("nothing may be deleted there")

    monkeypatch.setattr(kit.files, "delete", refuse)
    again, beside = kit.intake.accept_each([offer(kit, LONG, key="k"), offer(kit, SHORT)])
    assert accepted(again) == [first]
    assert kit.read(*accepted(beside)) == SHORT
    assert kit.take(LONG, name="0.txt", key="k") == first


def accepted(outcome: list[Document] | Exception) -> list[Document]:
    assert isinstance(outcome, list), outcome
    return outcome
