"""The writer: what is saved, what is held, and what becomes of it when saving fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event

import apsw
import pytest
from blobkit import files_below

from fairlead import Fairlead
from fairlead.backoff import Backoff
from fairlead.blobs.local import LocalBlobs
from fairlead.errors import DamagedData, DiskFull, StoreUnreachable
from fairlead.model.blobs import SHORT_BYTES
from fairlead.model.documents import Claim, Failed, Outcome, Saved
from fairlead.model.pipelines import Pipeline
from fairlead.model.states import State
from fairlead.worker import pipeline_run, result_saver, result_writer
from fairlead.worker.pipeline_run import resumed_run
from fairlead.worker.result_saver import FinishedJob
from fairlead.worker.result_writer import ResultWriter
from fairlead.worker.sandbox.answer import ExtractedFile, Extraction

LONG = "words " * result_saver.SHORT_TEXTS
"""A text that becomes a file."""


class FullDisk(LocalBlobs):
    """A folder without room for anything, until somebody makes some."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.was_asked, self.has_room = Event(), False

    def put_all(self, contents: Sequence[tuple[str, bytes]]) -> None:
        self.was_asked.set()
        if not self.has_room:
            raise DiskFull("full")
        super().put_all(contents)


class SlowDisk(LocalBlobs):
    """A folder that takes its first file only when it is let."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.was_asked, self.may_go = Event(), Event()
        self.groups: list[list[str]] = []

    def put_all(self, contents: Sequence[tuple[str, bytes]]) -> None:
        self.groups.append([key.partition(".")[0] for key, _ in contents])
        self.was_asked.set()
        self.may_go.wait()
        super().put_all(contents)


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path) as installation:
        yield installation


def claims(fairlead: Fairlead, number: int) -> list[Claim]:
    fairlead.submit_many("acme", [(b"x", f"{n}.txt") for n in range(number)])
    return fairlead.store.claim_for([f"w{n}" for n in range(number)])


def test_all_that_was_taken_over_is_saved_before_it_ends(fairlead: Fairlead) -> None:
    saved: list[int] = []
    writer = ResultWriter(fairlead.store, fairlead.files, fairlead.texts, lambda: saved.append(1))
    read, unread = claims(fairlead, 2)
    writer.add(FinishedJob(read, Extraction("text", "héllo", {"lines": 1}), 1.5))
    writer.add(FinishedJob(unread, Failed("damaged", "It is damaged."), 0.5))
    writer.close()
    assert writer.unsaved() == []
    assert writer.error is None
    assert saved
    assert fairlead.text(read.id) == "héllo"
    assert fairlead.document(read.id).seconds == 1.5
    failed = fairlead.document(unread.id)
    assert (failed.state, failed.error, failed.seconds) == (State.FAILED, "damaged", 0.5)


def test_short_texts_are_kept_in_the_store_and_long_ones_in_files(fairlead: Fairlead) -> None:
    writer = ResultWriter(fairlead.store, fairlead.files, fairlead.texts, lambda: None)
    short, marked, long = claims(fairlead, 3)
    writer.add(FinishedJob(short, Extraction("text", "same", {}, "same"), 0.1))
    writer.add(FinishedJob(marked, Extraction("html", "Title", {}, "# Title"), 0.1))
    writer.add(FinishedJob(long, Extraction("html", LONG, {}, f"# {LONG}"), 0.1))
    writer.close()
    assert [fairlead.text(document.id) for document in (short, marked, long)] == [
        "same",
        "Title",
        LONG,
    ]
    expected = ["same", "# Title", f"# {LONG}"]
    assert [fairlead.markdown(document.id) for document in (short, marked, long)] == expected
    keys = {f"{long.id}.{long.fence}.{suffix}" for suffix in ("txt", "md")}
    assert files_below(fairlead.folder.texts) == keys
    assert fairlead.store.known_texts([short.id, marked.id, long.id]) == keys
    fairlead.delete(long.id)
    assert not files_below(fairlead.folder.texts)


def test_a_short_text_that_was_altered_is_not_given_out(fairlead: Fairlead) -> None:
    writer = ResultWriter(fairlead.store, fairlead.files, fairlead.texts, lambda: None)
    [claim] = claims(fairlead, 1)
    writer.add(FinishedJob(claim, Extraction("text", "true", {}), 0.1))
    writer.close()
    with closing(apsw.Connection(str(fairlead.folder.database))) as connection:
        connection.execute("UPDATE results SET content = CAST('false' AS BLOB)")
    with pytest.raises(DamagedData, match="differs from what was stored"):
        fairlead.text(claim.id)


def test_what_cannot_be_saved_is_handed_back_with_the_error(fairlead: Fairlead) -> None:
    texts = FullDisk(fairlead.folder.texts)
    writer = ResultWriter(fairlead.store, fairlead.files, texts, lambda: None)
    first, second = claims(fairlead, 2)
    writer.add(FinishedJob(first, Extraction("text", LONG, {}), 0.1))
    texts.was_asked.wait()
    writer.add(FinishedJob(second, Extraction("text", "b", {}), 0.1))
    writer.close()
    assert set(writer.unsaved()) == {first, second}
    assert isinstance(writer.error, DiskFull)
    assert fairlead.queue.totals().processing == 2


def test_what_cannot_be_saved_now_is_saved_when_there_is_room(fairlead: Fairlead) -> None:
    texts, saved = FullDisk(fairlead.folder.texts), Event()
    writer = ResultWriter(fairlead.store, fairlead.files, texts, saved.set)
    [claim] = claims(fairlead, 1)
    writer.add(FinishedJob(claim, Extraction("text", LONG, {}), 0.1))
    texts.was_asked.wait()
    texts.was_asked.clear()
    texts.was_asked.wait()  # it was tried again, so it knows by now that the first try was in vain
    assert writer.is_behind()  # more results could only be kept in memory
    assert writer.unsaved() == [claim]
    texts.has_room = True
    saved.wait()
    assert not writer.is_behind()
    assert fairlead.text(claim.id) == LONG
    writer.close()
    assert writer.error is None


def test_when_it_has_to_end_it_does_not_wait_for_the_next_try(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room was made since the last one: what was read need not be read again."""
    monkeypatch.setattr(Backoff.__init__, "__defaults__", (3600.0, 3600.0))
    texts = FullDisk(fairlead.folder.texts)
    writer = ResultWriter(fairlead.store, fairlead.files, texts, lambda: None)
    [claim] = claims(fairlead, 1)
    writer.add(FinishedJob(claim, Extraction("text", LONG, {}), 0.1))
    while not writer.is_behind():
        texts.was_asked.wait()
    texts.has_room = True
    writer.close()
    assert writer.error is None
    assert fairlead.text(claim.id) == LONG


def test_nothing_is_begun_before_the_result_of_a_suspect_is_saved(fairlead: Fairlead) -> None:
    saved = Event()
    texts = SlowDisk(fairlead.folder.texts)
    writer = ResultWriter(fairlead.store, fairlead.files, texts, saved.set)
    writer.set_urgent(is_urgent=False)
    [claim] = claims(fairlead, 1)
    assert not writer.is_behind()
    writer.add(FinishedJob(claim._replace(suspect=True), Extraction("text", LONG, {}), 0.1))
    assert writer.is_behind()
    texts.was_asked.wait()
    assert writer.is_behind()
    texts.may_go.set()
    saved.wait()
    assert not writer.is_behind()
    writer.close()
    assert fairlead.document(claim.id).state is State.DONE


def test_the_result_of_a_suspect_goes_first_and_alone(fairlead: Fairlead) -> None:
    texts = SlowDisk(fairlead.folder.texts)
    writer = ResultWriter(fairlead.store, fairlead.files, texts, lambda: None)
    first, second, suspect, last = claims(fairlead, 4)
    writer.add(FinishedJob(first, Extraction("text", LONG, {}), 0.1))
    texts.was_asked.wait()
    for claim in (second, suspect._replace(suspect=True), last):
        writer.add(FinishedJob(claim, Extraction("text", LONG, {}), 0.1))
    texts.may_go.set()
    writer.close()
    assert texts.groups == [[first.id], [suspect.id], [second.id, last.id]]
    assert fairlead.queue.totals().processing == 0


def test_leases_of_results_on_the_way_are_still_to_be_renewed(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = SlowDisk(fairlead.folder.texts)
    monkeypatch.setattr(result_writer, "MOST_CHARACTERS", 10)
    writer = ResultWriter(fairlead.store, fairlead.files, texts, lambda: None)
    first, second, third = claims(fairlead, 3)
    writer.add(FinishedJob(first, Extraction("text", LONG, {}), 0.1))
    texts.was_asked.wait()
    writer.add(FinishedJob(second, Extraction("text", "0123456789", {}), 0.1))
    assert not writer.is_behind()
    writer.add(FinishedJob(third, Extraction("text", "!", {}), 0.1))
    assert writer.is_behind()
    assert set(writer.unsaved()) == {first, second, third}
    texts.may_go.set()
    writer.close()
    assert writer.unsaved() == []
    assert not writer.is_behind()
    assert fairlead.queue.totals().processing == 0


def files_of(fairlead: Fairlead) -> set[str]:
    return files_below(fairlead.folder.files)


def test_short_parts_are_kept_in_the_store_and_long_ones_in_files(fairlead: Fairlead) -> None:
    writer = ResultWriter(fairlead.store, fairlead.files, fairlead.texts, lambda: None)
    (claim,) = claims(fairlead, 1)
    contents = {"empty": b"", "short": b"s" * SHORT_BYTES, "long": b"l" * (SHORT_BYTES + 1)}
    parts = tuple(ExtractedFile(name, content) for name, content in contents.items())
    writer.add(FinishedJob(claim, Extraction("text", "text", {}, parts=parts), 0.1))
    writer.close()
    attachments = {document.name: document for document in fairlead.documents(parent=claim.id)}
    assert {
        name: fairlead.original(attachment.id) for name, attachment in attachments.items()
    } == contents
    assert files_of(fairlead) == {attachments["long"].id}


def test_many_short_parts_do_not_all_go_into_one_commit(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_saver, "SHORT_TOGETHER", 10)
    writer = ResultWriter(fairlead.store, fairlead.files, fairlead.texts, lambda: None)
    (claim,) = claims(fairlead, 1)
    contents = {"1": b"1234", "2": b"x" * (SHORT_BYTES + 1), "3": b"123456", "4": b"1", "5": b"12"}
    parts = tuple(ExtractedFile(name, content) for name, content in contents.items())
    writer.add(FinishedJob(claim, Extraction("text", "text", {}, parts=parts), 0.1))
    writer.close()
    attachments = {document.name: document for document in fairlead.documents(parent=claim.id)}
    assert {
        name: fairlead.original(attachment.id) for name, attachment in attachments.items()
    } == contents
    assert files_of(fairlead) == {attachments[name].id for name in ("2", "4", "5")}


def test_many_short_parts_of_steps_do_not_all_go_into_one_commit(
    fairlead: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_run, "SHORT_TOGETHER", 10)
    (claim,) = claims(fairlead, 1)
    run = resumed_run(claim, Pipeline("default"), tmp_path)
    parts = tuple(ExtractedFile(f"{number}", b"123456") for number in range(3))
    run.add_extraction(Extraction("text", "text", {}, parts=parts), 0.1)
    assert [part.content for part in run.interim.parts] == [b"123456", None, None]
    assert set(run.interim.part_keys) <= set(run.sources)


def test_a_result_whose_saving_was_not_heard_of_keeps_its_files(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks after the commit; the second try is told that it came too late."""
    save, answers = fairlead.store.finish_all, []

    def save_and_break_once(
        outcomes: Sequence[tuple[Claim, Outcome]], *_job_ends: object
    ) -> list[Saved]:
        answers.append(save(outcomes))
        if len(answers) == 1:
            raise StoreUnreachable("the line broke")
        return answers[-1]

    monkeypatch.setattr(fairlead.store, "finish_all", save_and_break_once)
    is_saved = Event()
    writer = ResultWriter(fairlead.store, fairlead.files, fairlead.texts, is_saved.set)
    (claim,) = claims(fairlead, 1)
    parts = (ExtractedFile("1", b"inside"), ExtractedFile("2", LONG.encode()))
    writer.add(FinishedJob(claim, Extraction("text", LONG, {}, parts=parts), 0.1))
    is_saved.wait()
    writer.close()
    assert answers == [[Saved.SAVED], [Saved.STALE]]
    assert writer.error is None
    assert fairlead.text(claim.id) == LONG
    long, short = fairlead.documents(parent=claim.id)
    assert fairlead.original(short.id) == b"inside"
    assert fairlead.original(long.id) == LONG.encode()
    assert files_of(fairlead) == {long.id}  # and none of the second try


def test_a_store_that_stays_away_is_an_error_when_it_has_to_end(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_tried = Event()

    def away(*_: object) -> list[Saved]:
        was_tried.set()
        raise StoreUnreachable("nobody is there")

    monkeypatch.setattr(fairlead.store, "finish_all", away)
    writer = ResultWriter(fairlead.store, fairlead.files, fairlead.texts, lambda: None)
    (claim,) = claims(fairlead, 1)
    writer.add(FinishedJob(claim, Failed("damaged", "It is damaged."), 0.5))
    was_tried.wait()
    writer.close()
    assert isinstance(writer.error, StoreUnreachable)
    assert writer.unsaved() == [claim]
