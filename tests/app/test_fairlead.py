"""`Fairlead`, the embedded installation: what its methods promise beyond the parts."""

from __future__ import annotations

import copy
import json
import os
import pickle
import threading
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from fairlead import Fairlead
from fairlead.blobs import LocalBlobs
from fairlead.errors import (
    DamagedData,
    DiskFull,
    NotReady,
    TooLarge,
    UnknownCustomer,
    UnknownDocument,
    UsageError,
)
from fairlead.model.blobs import SHORT_BYTES
from fairlead.model.installation import Installation


@pytest.mark.services
def test_the_contract_of_the_first_page(tmp_path: Path) -> None:
    (tmp_path / "invoice.txt").write_text("42 euros")
    with Fairlead(tmp_path / "data") as fairlead:
        document = fairlead.submit("acme", tmp_path / "invoice.txt")
        assert (document.name, document.count, document.priority) == ("invoice.txt", 0, 1)
        fairlead.run_until_idle(workers=2)
        assert fairlead.document(document.id).state == "done"
        assert fairlead.text(document.id) == "42 euros"


def test_a_text_that_is_not_there_is_explained(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        document = fairlead.submit("acme", b"x")
        with pytest.raises(NotReady, match="is waiting; its text is available when it is done"):
            fairlead.text(document.id)
        fairlead.cancel(document.id)
        with pytest.raises(NotReady, match="is cancelled; it has no text"):
            fairlead.text(document.id)
        with pytest.raises(UnknownDocument):
            fairlead.text("nobody")


@pytest.mark.services
def test_a_failed_document_says_why_it_has_no_text_in_one_sentence(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        document = fairlead.submit("acme", b"\x00\x01\x02\x03" * 100)
        fairlead.run_until_idle(workers=1)
        with pytest.raises(NotReady, match=r"is failed \(unsupported\): .*[^.]; it has no text"):
            fairlead.text(document.id)


@pytest.mark.services
def test_bytes_that_changed_on_disk_are_not_passed_off_as_the_document(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings={"retry_delay": 0.01}) as fairlead:
        changed = fairlead.submit("acme", b"the true bytes" * SHORT_BYTES)
        gone = fairlead.submit("acme", b"soon gone" * SHORT_BYTES)
        for document in (changed, gone):
            path = fairlead.folder.files / document.id[:6] / document.id
            path.write_bytes(b"others") if document is changed else path.unlink()
        with pytest.raises(DamagedData, match="SHA-256 differs"):
            fairlead.original(changed.id)
        with pytest.raises(DamagedData, match="is missing"):
            fairlead.original(gone.id)
        fairlead.run_until_idle(workers=1)
        assert {fairlead.document(document.id).error for document in (changed, gone)} == {"corrupt"}


@pytest.mark.services
def test_bytes_that_changed_in_the_store_are_not_passed_off_as_the_document(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings={"retry_delay": 0.01}) as fairlead:
        changed = fairlead.submit("acme", b"the true bytes")
        gone = fairlead.submit("acme", b"soon gone")
        alter(fairlead, "UPDATE originals SET content = x'00' WHERE document = 1")
        alter(fairlead, "DELETE FROM originals WHERE document = 2")
        with pytest.raises(DamagedData, match="differs from what was stored"):
            fairlead.original(changed.id)
        with pytest.raises(DamagedData, match="is missing"):
            fairlead.original(gone.id)
        assert fairlead.store.problems() == ["1 originals have no document, or another length"]
        fairlead.run_until_idle(workers=1)
        assert {fairlead.document(document.id).error for document in (changed, gone)} == {"corrupt"}


def alter(fairlead: Fairlead, statement: str) -> None:
    with closing(apsw.Connection(str(fairlead.folder.database))) as connection:
        connection.execute(statement)


@pytest.mark.services
def test_short_documents_that_are_files_are_found_as_before(tmp_path: Path) -> None:
    """So they are where an older Fairlead accepted them."""
    with Fairlead(tmp_path) as fairlead:
        document = fairlead.submit("acme", b"of old")
        alter(fairlead, "DELETE FROM originals")
        LocalBlobs(tmp_path / "files").put_all([(document.id, b"of old")])
        assert fairlead.original(document.id) == b"of old"
        assert fairlead.contents.path(document).read_bytes() == b"of old"
        fairlead.run_until_idle(workers=1)
        assert fairlead.text(document.id) == "of old"
        assert fairlead.services.sweep() == 0
        fairlead.delete(document.id)
        assert not fairlead.contents.path(document).exists()


@pytest.mark.parametrize("size", [10, SHORT_BYTES, SHORT_BYTES + 1])
def test_a_deleted_document_leaves_no_bytes(tmp_path: Path, size: int) -> None:
    with Fairlead(tmp_path) as fairlead:
        document = fairlead.submit("acme", b"x" * size)
        assert fairlead.original(document.id) == b"x" * size
        fairlead.delete(document.id)
        assert fairlead.store.original(document.id) is None
        assert not fairlead.contents.path(document).exists()
        assert fairlead.store.problems() == []


def test_a_file_over_the_limit_is_refused_before_it_is_copied(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.touch()
    os.truncate(large, 10**12)  # nobody could copy that in the time of a test
    with Fairlead(tmp_path / "data") as fairlead:
        with pytest.raises(TooLarge, match=r"large\.bin' has 1,000,000,000,000 bytes"):
            fairlead.submit("acme", large)
        assert fairlead.store.customers() == []


def test_strict_is_a_setting_and_a_word_for_one_submission(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings={"strict_customers": True}) as fairlead:
        with pytest.raises(UnknownCustomer, match="customers add"):
            fairlead.submit("acme", b"x")
        assert fairlead.submit("acme", b"x", strict=False).count == 0
        assert fairlead.submit("acme", b"x").count == -1
        assert fairlead.submit_many("nobody", []) == []


def test_what_is_deleted_is_not_waited_for_and_what_never_was_is_refused(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        first, second = fairlead.submit_many("acme", [b"1", b"2"])

        def end_one(left: int) -> None:
            if left == 2:
                fairlead.delete(first.id)
            elif left == 1:
                fairlead.cancel(second.id)

        fairlead.wait([first.id, second.id], on_progress=end_one)
        with pytest.raises(UnknownDocument):
            fairlead.wait(["nothing"])


def test_events_of_a_customer_begin_before_its_first_document(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        events = fairlead.events(customer="acme")
        fairlead.submit("bolt", b"1")
        document = fairlead.submit("acme", b"2")
        kinds = [next(events), next(events)]
        assert [(event.kind, event.customer) for event in kinds] == [
            ("customer-added", "acme"),
            ("submitted", "acme"),
        ]
        assert kinds[1].document == document.id
        with pytest.raises(UnknownCustomer):
            fairlead.events(customer="nobody", follow=False)


def test_a_wait_tells_how_many_may_be_pending_from_the_first_to_none(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        document = fairlead.submit("acme", b"1")
        fairlead.cancel(document.id)
        left: list[int] = []
        fairlead.wait(document, on_progress=left.append)
        fairlead.wait([document.id, document.id], on_progress=left.append)
        assert left == [1, 0, 1, 0]


@pytest.mark.services
def test_whoever_waits_in_a_thread_is_told_while_the_work_goes_on(tmp_path: Path) -> None:
    left: list[int] = []
    with Fairlead(tmp_path) as fairlead:
        documents = fairlead.submit_many("acme", [(b"x", f"{n}.txt") for n in range(20)])
        waiting = threading.Thread(
            target=fairlead.wait,
            args=[[document.id for document in documents]],
            kwargs={"on_progress": left.append},
        )
        waiting.start()
        fairlead.run_until_idle(workers=2)
        waiting.join()
    assert left[-1] == 0
    assert left == sorted(left, reverse=True)


def test_a_state_that_there_is_not_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with (
        Fairlead(tmp_path / "data") as fairlead,
        pytest.raises(UsageError, match=r"one of waiting, .*; got 'bogus'"),
    ):
        fairlead.documents(state="bogus")


def test_documents_are_values_that_can_be_copied_and_sent(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        submitted = fairlead.submit("acme", b"hello", name="a.txt")
        for document in (submitted, fairlead.document(submitted.id)):
            assert pickle.loads(pickle.dumps(document)) == document
            assert copy.deepcopy(document) == document
            assert json.dumps(document.facts) == "{}"


def test_who_deletes_again_takes_nothing_of_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Fairlead(tmp_path) as fairlead:
        gone, here = (
            fairlead.submit("acme", content, name="a.txt") for content in (b"one", b"two")
        )
        fairlead.folder.reserve.fill()
        whole = (tmp_path / "reserve").stat().st_size
        fairlead.delete(gone.id)

        def full(*_given: object, **_named: object) -> None:
            raise DiskFull("full")

        monkeypatch.setattr(fairlead.store, "delete", full)
        fairlead.delete(gone.id)
        assert (tmp_path / "reserve").stat().st_size == whole > 0
        with pytest.raises(DiskFull):
            fairlead.delete(here.id)
        assert (tmp_path / "reserve").stat().st_size == 0


def test_fairlead_is_an_installation(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        installation: Installation = fairlead  # type checkers compare all signatures
        document = installation.submit(source=b"x", customer="acme", name="x.txt")
        assert [listed.id for listed in installation.documents(customer="acme")] == [document.id]
        assert [customer.name for customer in installation.queue.overview()[0]] == ["acme"]


def test_a_page_of_documents_iterates_over_all_of_them(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        ids = [
            document.id for document in fairlead.submit_many("acme", [b"a", b"b", b"c", b"d", b"e"])
        ]
        page = fairlead.documents(limit=2)
        assert [document.id for document in page.items] == ids[:2:-1]
        assert page.next == ids[3]
        assert [document.id for document in page] == ids[::-1]
        assert fairlead.documents(cursor=ids[1]).next is None


def test_wait_returns_the_documents_or_times_out(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        first, second = fairlead.submit_many("acme", [b"a", b"b"])
        with pytest.raises(NotReady, match="the wait timed out"):
            fairlead.wait([first.id, second.id], timeout=0)
        fairlead.cancel(first.id)
        assert fairlead.wait(first).state == "cancelled"
        fairlead.delete(second.id)
        assert [document.id for document in fairlead.wait([second.id, first.id])] == [first.id]
        with pytest.raises(UnknownDocument):
            fairlead.wait(second.id)


def test_events_come_as_they_happen(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        fairlead.submit("globex", b"before")
        events = fairlead.events(customer="globex")
        document = fairlead.submit("globex", b"after")
        assert next(events).document == document.id
        later = threading.Thread(target=fairlead.cancel, args=[document.id])
        later.start()
        assert next(events).kind == "cancelled"
        later.join()
        assert next(fairlead.events(after=0)).seq == 1


def test_a_download_is_the_original(tmp_path: Path) -> None:
    with Fairlead(tmp_path / "data") as fairlead:
        document = fairlead.submit("acme", b"x" * SHORT_BYTES * 2)
        fairlead.download(document.id, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == fairlead.original(document.id)
        assert [path.name for path in tmp_path.glob(".*")] == []
        with pytest.raises(UsageError, match="path of a file"):
            fairlead.download(document.id, "/")


def test_the_audit_record_names_the_actor_of_the_installation(tmp_path: Path) -> None:
    with Fairlead(tmp_path, actor="script") as fairlead:
        fairlead.customers.add("acme")
        fairlead.customers.pause("acme", by="anna")
        assert [event.actor for event in fairlead.store.audit()] == ["anna", "script"]
