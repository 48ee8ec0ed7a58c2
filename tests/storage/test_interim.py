"""Interim results of steps: kept under the fence, until the document ends."""

from __future__ import annotations

from msgspec.structs import replace
from storekit import DONE, LEASE, Clock, RulesInForce, must_claim, submit

from fairlead.model.documents import (
    Broken,
    Delayed,
    Document,
    EventKind,
    Failed,
    ResultFile,
    Saved,
)
from fairlead.model.pipelines import DEFAULT_PIPELINES, Pipeline
from fairlead.model.results import AskingStep, Content, Interim, InterimPart, decode_interim
from fairlead.model.states import State
from fairlead.policy.retry import RetryRule
from fairlead.storage import Store

DATA = Content(2, "d" * 64, content=b"{}")
LONG = Content(100_000, "f" * 64, "stamped.pdf", "application/pdf", key="long-file")
PART = InterimPart("part0000000000000000000000", "page.pdf", 100_000, "a" * 64, "pdf")
FOUND = Interim(
    ("read", "invoices:fields"), 1, data=DATA, files=(LONG,), parts=(PART,), facts={"pages": 2}
)


def one(store: Store) -> Document:
    return submit(store, "acme")[0]


def test_a_claim_brings_what_earlier_claims_found(store: Store) -> None:
    one(store)
    claim = must_claim(store)
    assert claim.interim is None
    assert store.keep_interim([(claim, FOUND)]) == [Saved.SAVED]
    store.release([claim])
    again = must_claim(store)
    assert again.interim is not None
    assert decode_interim(again.interim) == FOUND


def test_an_old_claim_keeps_nothing(store: Store, clock: Clock) -> None:
    one(store)
    old = must_claim(store)
    clock.advance(LEASE + 1)
    new = must_claim(store)
    assert store.keep_interim([(old, FOUND)]) == [Saved.STALE]
    store.release([new])
    assert must_claim(store).interim is None


def test_a_step_that_asks_for_later_waits_that_long_and_keeps_what_was_found(
    store: Store, clock: Clock
) -> None:
    document = one(store)
    assert store.finish(must_claim(store), Delayed(60.0, FOUND, seconds=2.0)) is Saved.SAVED
    waiting = store.document(document.id)
    assert (waiting.state, waiting.attempts, waiting.error) == (State.WAITING, 1, None)
    assert store.claim("worker") is None
    clock.advance(61)
    claim = must_claim(store)
    assert claim.interim is not None
    assert decode_interim(claim.interim) == FOUND


def test_no_end_leaves_an_interim_result_behind(store: Store) -> None:
    for end in (DONE, Failed("no-total", "No total was found.")):
        one(store)
        claim = must_claim(store)
        store.keep_interim([(claim, FOUND)])
        assert store.interim_keys() == {"long-file", PART.id}
        store.finish(claim, end)
        assert store.interim_keys() == set()
    document = one(store)
    store.keep_interim([(must_claim(store), FOUND)])
    store.cancel(document.id)
    assert store.interim_keys() == set()


def test_deleting_a_document_names_the_blobs_of_its_interim_result(store: Store) -> None:
    document = one(store)
    store.keep_interim([(must_claim(store), FOUND)])
    assert "long-file" in store.delete(document.id)
    assert store.interim_keys() == set()


def test_claims_that_a_step_ended_do_not_count_as_lost(
    store: Store, clock: Clock, rules: RulesInForce
) -> None:
    rules.change(retry=RetryRule(max_attempts=2))
    document = one(store)
    for settled in (1, 2, 3):
        interim = Interim(FOUND.steps, 1, settled=settled)
        store.finish(must_claim(store), Delayed(1.0, interim, "step-failed", "It failed."))
        clock.advance(2)
    must_claim(store)
    clock.advance(LEASE + 1)
    must_claim(store)  # lost once, of two times
    clock.advance(LEASE + 1)
    assert store.claim("worker") is None
    assert store.document(document.id).error == "worker-lost"


def test_a_result_has_data_and_files(store: Store) -> None:
    document = one(store)
    short = Content(2, "e" * 64, "note.txt", "text/plain", content=b"hi")
    done = DONE._replace(text_sha256=None, text_key=None, data=DATA, files=(LONG, short))
    store.finish(must_claim(store), done)
    assert store.results(document.id) == [
        ("data", Content(2, "d" * 64)),
        ("file", Content(2, "e" * 64, "note.txt", "text/plain")),
        ("file", LONG),
    ]
    assert store.result_content(document.id, "data") == b"{}"
    assert store.result_content(document.id, "file", "note.txt") == b"hi"
    assert store.known_texts([document.id]) == {"long-file"}
    assert store.delete(document.id) == ["long-file"]


def test_operators_see_the_cause_and_a_retry_forgets_it(store: Store) -> None:
    document = one(store)
    failed = Failed("step-failed", "It failed.", cause="ValueError: 7")
    store.finish(must_claim(store), failed)
    assert store.cause(document.id) == "ValueError: 7"
    store.retry(document.id)
    assert store.cause(document.id) is None
    store.keep_interim([(must_claim(store), Interim(FOUND.steps, 1, cause="KeyError: 8"))])
    assert store.cause(document.id) == "KeyError: 8"


def step_of(store: Store, document: Document) -> tuple[str | None, int | None]:
    shown = store.document(document.id)
    assert store.documents()[0] == shown
    return shown.step, shown.step_attempt


def test_a_document_shows_the_step_that_runs_or_failed(store: Store, clock: Clock) -> None:
    document = one(store)
    assert step_of(store, document) == (None, None)
    claim = must_claim(store)
    assert step_of(store, document) == ("read", 1)
    store.keep_interim([(claim, FOUND)])
    assert step_of(store, document) == ("invoices:fields", 1)
    tried = Interim(FOUND.steps, 1, attempts=1, settled=1)
    store.finish(claim, Delayed(60.0, tried, "step-failed", "It failed."))
    assert step_of(store, document) == ("invoices:fields", 1)
    clock.advance(61)
    claim = must_claim(store)
    assert step_of(store, document) == ("invoices:fields", 2)
    failed = Failed("step-failed", "It failed.", step="invoices:fields", step_attempt=2)
    store.finish(claim, failed)
    assert step_of(store, document) == ("invoices:fields", 2)
    events = [event.data.get("step") for event in store.events_of(document.id)]
    assert events[-1] == "invoices:fields"
    assert events.count("invoices:fields") == 2
    store.retry(document.id)
    assert step_of(store, document) == (None, None)


def test_a_broken_attempt_shows_that_reading_failed(store: Store, clock: Clock) -> None:
    document = one(store)
    broken = Broken("crashed", "It crashed.", step="read", step_attempt=1)
    store.finish(must_claim(store), broken)
    assert step_of(store, document) == ("read", 1)
    clock.advance(3600)
    must_claim(store)
    assert step_of(store, document) == ("read", 2)


def test_the_first_step_is_the_one_of_the_pipeline_in_the_settings(
    store: Store, rules: RulesInForce
) -> None:
    rules.change(pipelines=(Pipeline("default", ("invoices:fields",)),))
    document = one(store)
    must_claim(store)
    assert step_of(store, document) == ("invoices:fields", 1)
    rules.change(pipelines=())
    assert step_of(store, document) == (None, None)
    rules.change(pipelines=DEFAULT_PIPELINES)


def test_a_document_that_is_done_names_its_files(store: Store) -> None:
    document = one(store)
    short = Content(2, "e" * 64, "note.txt", "text/plain", content=b"hi")
    store.finish(must_claim(store), DONE._replace(files=(LONG, short)))
    done = store.document(document.id)
    assert done.files == (
        ResultFile("note.txt", "text/plain", 2, "e" * 64),
        ResultFile("stamped.pdf", "application/pdf", 100_000, "f" * 64),
    )
    assert (done.step, done.step_attempt) == (None, None)


def test_steps_that_ask_again_and_again_are_told_with_one_event(store: Store, clock: Clock) -> None:
    document = one(store)
    for number in range(1, 4):
        asked = replace(FOUND, later=number, later_since=clock.now)
        assert store.finish(must_claim(store), Delayed(1.0, asked)) is Saved.SAVED
        clock.advance(2)
    events = [event.kind for event in store.events_of(document.id)]
    assert events.count(EventKind.REQUEUED) == 1
    assert store.asking_steps(4) == []
    assert store.asking_steps(3) == [AskingStep("invoices:fields", 1, 3)]
