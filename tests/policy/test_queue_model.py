"""The model of the queue against the golden vectors, and against small cases worked out by hand."""

from __future__ import annotations

import csv
import math
import random
from itertools import groupby
from pathlib import Path

import pytest
from queue_model import PipelineSettings, QueueModel, QueueSettings
from trace_driver import run_trace, vector_trace

VECTORS = Path(__file__).parent.parent / "vectors"
TOLERANCE = 0.000002

Rows = list[dict[str, str]]


def cases(name: str) -> dict[str, Rows]:
    with (VECTORS / name).open(newline="") as file:
        return {case: list(rows) for case, rows in groupby(csv.DictReader(file), _case)}


def _case(row: dict[str, str]) -> str:
    return row["case"]


CLASSIC = cases("classic.csv")
FAIR = cases("fair2.csv")


@pytest.mark.parametrize("rows", CLASSIC.values(), ids=CLASSIC)
def test_counts_and_priorities_are_those_of_the_classic_vectors(rows: Rows) -> None:
    model = QueueModel(QueueSettings(policy="classic"))
    for row in rows:
        _, count, priority = model.submit(row["customer"], now=float(row["at"]))
        assert (count, priority) == (int(row["count"]), int(row["priority"]))


@pytest.mark.parametrize("rows", FAIR.values(), ids=FAIR)
def test_every_row_of_the_fair_vectors_holds(rows: Rows) -> None:
    settings, workers, events = vector_trace(rows)
    run = run_trace(QueueModel(settings), settings, workers, events)
    expected = [row for row in rows if row["what"] == "submit"]
    assert len(expected) == len(run.submissions)
    for row, submission in zip(expected, run.submissions, strict=True):
        assert (submission.count, submission.priority) == (int(row["count"]), int(row["priority"]))
        assert submission.debt_after == pytest.approx(float(row["debt_after"]), abs=TOLERANCE)
        start = run.first_start(submission.document)
        if start is None or start.start is None:
            assert row["started"] == ""
            continue
        assert start.at == pytest.approx(float(row["started"]), abs=TOLERANCE)
        assert start.start.lane == (row["lane"] == "1")


def fair(**settings: object) -> QueueModel:
    return QueueModel(QueueSettings(share=0, **settings))  # type: ignore[arg-type]


def classic(**settings: object) -> QueueModel:
    return QueueModel(QueueSettings(policy="classic", **settings))  # type: ignore[arg-type]


def submit(model: QueueModel, *names: str, now: float = 0.0, estimate: float = 6.0) -> list[int]:
    return [model.submit(name, now=now, estimate=estimate)[0] for name in names]


def claim(model: QueueModel, now: float = 0.0, number: int = 1) -> list[int]:
    """The numbers of the next documents."""
    starts = [model.claim(now) for _ in range(number)]
    return [start.document for start in starts if start is not None]


# Classic.


def test_an_urgent_document_uses_up_the_best_slot_of_its_customer() -> None:
    model = classic()
    submit(model, "a", "b", "a")
    urgent, *_ = model.submit("a", now=0.0, urgent=True)
    assert claim(model) == [urgent]
    assert model.place("a") == (1, 2, 0), "document 0 has the slot of the urgent one, behind 2"
    assert claim(model, number=3) == [1, 0, 2]


def test_a_lost_urgent_document_keeps_the_slot_that_it_used() -> None:
    model = classic()
    submit(model, "a", "b")
    urgent, *_ = model.submit("a", now=0.0, urgent=True)
    assert claim(model) == [urgent]
    model.lose(urgent, 1.0)
    assert claim(model, 1.0, number=3) == [urgent, 1, 0]


def test_urgent_documents_overtake_only_in_their_pipeline() -> None:
    model = classic()
    submit(model, "a")
    model.submit("a", now=0.0, urgent=True, pipeline="other")
    assert claim(model, number=2) == [0, 1]


def test_the_lane_takes_the_oldest_document_which_uses_up_the_oldest_slot() -> None:
    """Document 0 was displaced, and has the slot of the urgent document 2."""
    model = classic(share=2, interval=10.0)
    submit(model, "a", "a")
    model.submit("a", now=0.0, urgent=True)
    assert claim(model) == [2]
    start = model.claim(20.0)
    assert start is not None
    assert (start.document, start.lane) == (0, True)
    assert [model.documents[one].slot for one in (0, 1)] == [(1, 1), (1, 2)]


def test_the_lane_takes_who_waits_longest_and_equals_by_arrival() -> None:
    model = classic(share=2, interval=10.0)
    submit(model, "b", "a", "c")
    claim(model)
    start = model.claim(20.0)
    assert start is not None
    assert (start.customer, start.lane) == ("a", True)


# Attempts that end otherwise.


def test_a_lost_document_waits_again_and_its_work_is_refunded() -> None:
    model = fair()
    submit(model, "a", "a")
    assert claim(model) == [0]
    model.lose(0, 3.0)
    assert model.debt("a", 3.0) == 0.0
    assert model.count_of_next("a", 3.0) == -2
    assert model.customers["a"].last_start == 0.0
    assert claim(model, 3.0) == [0]


def test_a_retry_is_neither_queued_nor_waiting_until_it_is_due() -> None:
    model = fair()
    submit(model, "a")
    claim(model)
    model.fail_attempt(0, 2.0, 2.0, 10.0)
    assert model.debt("a", 2.0) == pytest.approx(model.faded(6.0, 2.0) - 4.0)
    assert (model.place("a"), claim(model, 9.0), model.due(9.0)) == (None, [], [])
    assert model.due(10.0) == [0]
    place = model.place("a")
    assert place is not None
    assert place[:2] == (0, 10.0 + 1500.0 * math.log1p(model.debt("a", 10.0) / 6.0))
    assert claim(model, 10.0) == [0]


def test_a_document_that_is_cancelled_while_it_waits_costs_nothing() -> None:
    model = fair()
    submit(model, "a")
    assert model.cancel(0, 1.0)
    assert not model.cancel(0, 1.0)
    assert (model.place("a"), model.debt("a", 1.0), model.count_of_next("a", 1.0)) == (None, 0, 0)


def test_a_document_that_is_cancelled_while_it_runs_costs_the_time_used() -> None:
    model = fair()
    submit(model, "a")
    claim(model)
    assert model.cancel(0, 0.0, 2.0)
    assert model.debt("a", 0.0) == pytest.approx(2.0)


def test_debt_fades_again_once_the_last_document_charged_to_the_tag_ends() -> None:
    model = fair(allowance=1.0)
    submit(model, "a", "a")
    claim(model, number=2)
    assert model.debt("a", 100.0) == 6.0
    model.finish(1, 100.0, 6.0)
    assert model.debt("a", 200.0) == model.faded(6.0, 100.0)


def test_a_clock_that_goes_back_changes_no_debt() -> None:
    model = fair()
    submit(model, "a", now=100.0)
    claim(model, 100.0)
    submit(model, "a", now=50.0)
    assert model.debt("a", 50.0) == 6.0
    assert model.debt("a", 150.0) == model.faded(6.0, 50.0)


# Weights, resets, accounts.


def test_a_new_weight_counts_from_the_next_claim() -> None:
    model = fair()
    submit(model, "a", "a")
    claim(model)
    model.set_weight("a", 2.0, 0.0)
    assert model.debt("a", 0.0) == 6.0
    claim(model)
    assert model.debt("a", 0.0) == 9.0
    model.finish(0, 0.0, 12.0)
    assert model.debt("a", 0.0) == 15.0, "document 0 was charged with a weight of 1"


def test_a_reset_forgets_the_classic_count() -> None:
    model = classic()
    submit(model, "a", "a", "a")
    model.reset("a", 0.0)
    assert model.count_of_next("a", 0.0) == 0


def test_a_reset_forgets_debt_and_tag() -> None:
    model = fair(allowance=1.0)
    submit(model, "a", "a", "a")
    claim(model, number=2)
    assert (model.tag("a"), model.debt("a", 0.0)) == (6.0, 6.0)
    model.reset("a", 0.0)
    assert (model.tag("a"), model.debt("a", 0.0)) == (0.0, 0.0)
    place = model.place("a")
    assert place is not None
    assert place[:2] == (0, 0.0)
    assert model.count_of_next("a", 0.0) == -1, "one document still waits"


def test_customers_of_one_account_share_its_debt_and_take_turns_inside() -> None:
    model = fair()
    for name in ("a", "b"):
        model.set_account(name, "shared", 0.0)
    submit(model, "a", "a", "a", "b", "b")
    assert [model.documents[one].count for one in range(5)] == [0, -1, -2, 0, -1]
    assert claim(model, number=4) == [0, 3, 1, 4]
    assert model.debt("shared", 0.0) == 24.0
    assert model.debt("shared", 0.0, "a") == 12.0
    assert model.debt("a", 0.0) == 0.0


def test_inside_an_account_the_customers_have_a_clock_of_their_own() -> None:
    model = fair(allowance=1.0)
    for name in ("a", "b"):
        model.set_account(name, "shared", 0.0)
    submit(model, "a", "a", "a", "a", "b", "b", "b")
    assert claim(model, number=7) == [0, 4, 1, 5, 2, 6, 3]
    assert model.clock("shared") == 12.0
    assert model.clock() == 30.0


def test_a_named_account_has_an_inner_record_also_with_one_customer() -> None:
    model = fair()
    model.set_account("a", "shared", 0.0)
    model.set_weight("shared", 2.0, 0.0)
    submit(model, "a")
    claim(model)
    assert (model.debt("shared", 0.0), model.debt("shared", 0.0, "a")) == (3.0, 6.0)
    assert model.count_of_next("a", 0.0) == -1


def test_an_account_keeps_its_place_while_one_of_its_customers_may_run() -> None:
    model = fair()
    for name in ("a", "b"):
        model.set_account(name, "shared", 0.0)
    submit(model, "a", "b")
    place = model.place("shared")
    model.pause("a", 1.0)
    assert (model.place("shared"), model.place("shared", "a")) == (place, None)
    assert claim(model, 1.0) == [1]
    assert model.place("shared") is None
    model.resume("a", 2.0)
    assert claim(model, 2.0) == [0]


def test_a_customer_that_moves_takes_along_what_waits_and_its_own_debt() -> None:
    model = fair()
    submit(model, "a", "a")
    claim(model)
    model.set_account("a", "shared", 0.0)
    assert (model.place("a"), model.debt("shared", 0.0, "a")) == (None, 6.0)
    assert model.count_of_next("a", 0.0) == -2
    model.finish(0, 0.0, 2.0)
    assert (model.debt("shared", 0.0, "a"), model.debt("shared", 0.0)) == (2.0, 0.0)


def test_a_reset_inside_an_account_leaves_the_debt_of_the_account() -> None:
    model = fair()
    model.set_account("a", "shared", 0.0)
    submit(model, "a")
    claim(model)
    model.reset("a", 0.0)
    assert (model.debt("shared", 0.0), model.debt("shared", 0.0, "a")) == (6.0, 0.0)


# Switching.


def test_switching_to_fair_keeps_the_count_of_the_next_document() -> None:
    model = classic()
    submit(model, *"aaaaabb")
    claim(model, number=3)
    counts = {name: model.count_of_next(name, 0.0) for name in "ab"}
    model.switch("fair", 0.0)
    assert {name: model.count_of_next(name, 0.0) for name in "ab"} == counts
    assert model.debt("a", 0.0) == 18.0
    assert model.debt("b", 0.0) == 0.0
    model.finish(0, 0.0, 100.0)
    assert model.debt("a", 0.0) == 18.0, "what runs is not corrected"
    assert claim(model, number=4) == [5, 6, 3, 4]


def test_switching_to_fair_gives_tickets_in_the_order_of_the_queue() -> None:
    model = classic()
    submit(model, *"aaaa", "b")
    model.submit("c", now=0.0)
    claim(model, number=3)
    for document in range(3):
        model.cancel(document, 0.0)
    model.reset("a", 0.0)
    model.switch("fair", 0.0)
    places = {name: model.place(name) for name in "abc"}
    assert sorted(places, key=lambda name: places[name] or (9, 0.0, 0)) == ["b", "c", "a"]


def test_switching_to_classic_takes_the_shown_counts_and_keeps_priorities() -> None:
    model = fair()
    submit(model, *"aaaaa")
    claim(model, number=2)
    model.switch("classic", 0.0)
    assert model.customers["a"].count == -5
    assert [model.documents[one].priority for one in range(5)] == [1, 1, 1, 2, 2]
    assert claim(model, number=3) == [2, 3, 4]
    model.finish(0, 0.0, 6.0)


# Pipelines.


def with_pipeline(policy: str, **settings: float | int) -> QueueModel:
    pipelines = {"slow": PipelineSettings(**settings)}  # type: ignore[arg-type]
    return QueueModel(QueueSettings(policy=policy, share=2, interval=10.0, pipelines=pipelines))


policies = pytest.mark.parametrize("policy", ["classic", "fair"])


@policies
def test_a_full_pipeline_is_skipped_and_costs_its_account_no_place(policy: str) -> None:
    model = with_pipeline(policy, max_running=1)
    for name in ("a", "a", "b"):
        model.submit(name, now=0.0, pipeline="slow")
    submit(model, "b", "c")
    assert claim(model) == [0]
    place = model.place("a")
    assert claim(model, number=3) == [3, 4]
    assert model.place("a") == place
    model.finish(0, 1.0, 1.0)
    assert claim(model, 1.0) == [1]


@policies
def test_a_limit_gives_one_start_per_token(policy: str) -> None:
    model = with_pipeline(policy, limit=2.0)
    for _ in range(6):
        model.submit("a", now=0.0, pipeline="slow")
    assert claim(model, 0.0, 6) == [0, 1]
    assert model.next_opening(0.0) == 0.5
    assert claim(model, 0.4, 6) == []
    assert claim(model, 0.5, 6) == [2]
    assert claim(model, 100.0, 6) == [3, 4], "tokens beyond the burst are not kept"


@policies
def test_a_slow_limit_still_gives_one_token_at_the_beginning(policy: str) -> None:
    model = with_pipeline(policy, limit=0.1)
    for _ in range(2):
        model.submit("a", now=5.0, pipeline="slow")
    assert claim(model, 5.0, 2) == [0]
    assert model.next_opening(6.0) == pytest.approx(15.0)
    assert claim(model, 15.0) == [1]


@policies
def test_the_lane_takes_only_documents_of_open_pipelines(policy: str) -> None:
    model = with_pipeline(policy, max_running=1)
    for name in ("a", "b"):
        model.submit(name, now=0.0, pipeline="slow")
    assert claim(model) == [0]
    submit(model, "b", "c", now=19.0)
    start = model.claim(20.0)
    assert start is not None
    assert (start.document, start.lane) == (2, False), "it waits for 1 s, document 1 for 20 s"
    model.finish(0, 31.0, 31.0)
    start = model.claim(31.0)
    assert start is not None
    assert (start.document, start.lane) == (3, True), "the last start of b was 1 s later"


@policies
def test_a_worker_claims_only_the_pipelines_that_it_serves(policy: str) -> None:
    model = with_pipeline(policy)
    submit(model, "a")
    model.submit("a", now=0.0, pipeline="slow")
    start = model.claim(0.0, ["slow"])
    assert start is not None
    assert start.document == 1
    assert model.claim(0.0, ["slow"]) is None


# Everything together.


@pytest.mark.parametrize("seed", range(8))
def test_an_account_has_a_place_exactly_while_something_of_it_may_run(seed: int) -> None:
    pick = random.Random(seed)
    pipelines = {"slow": PipelineSettings(max_running=1, limit=0.5)}
    model = QueueModel(QueueSettings(allowance=2.0, interval=30.0, pipelines=pipelines))
    now = 0.0
    for _ in range(150):
        now += pick.choice([0.0, 0.0, 1.0, 7.0, -1.0])
        act_by_lot(model, pick, now)
        for record in model.records.values():
            has_place = record.place is not None
            assert has_place == (model.policy == "fair" and model.may_run(record))
            assert record.debt >= 0


def act_by_lot(model: QueueModel, pick: random.Random, now: float) -> None:
    name, others = pick.choice("abcd"), ["pause", "resume", "cap", "weight", "account", "reset"]
    kind = pick.choice(["submit"] * 8 + ["claim"] * 6 + ["end"] * 6 + others * 2 + ["switch"])
    running = [one.number for one in model.documents if one.state == "processing"]
    if kind == "submit":
        estimate, pipeline = pick.choice([1.0, 6.0, 20.0]), pick.choice(["default", "slow"])
        urgent = pick.random() < 0.2
        model.submit(name, now=now, estimate=estimate, urgent=urgent, pipeline=pipeline)
    elif kind == "claim":
        model.due(now)
        model.claim(now)
    elif kind == "end" and running:
        end_by_lot(model, pick, pick.choice(running), now)
    elif kind in ("pause", "resume", "reset"):
        getattr(model, kind)(name, now)
    else:
        set_by_lot(model, pick, kind, name, now)


def set_by_lot(model: QueueModel, pick: random.Random, kind: str, name: str, now: float) -> None:
    if kind == "cap":
        model.set_cap(name, pick.choice([None, 1, 2]), now)
    elif kind == "weight":
        model.set_weight(pick.choice([name, "shared"]), pick.choice([0.5, 1.0, 3.0]), now)
    elif kind == "account":
        model.set_account(name, pick.choice([None, "shared"]), now)
    elif kind == "switch":
        model.switch(pick.choice(["classic", "fair", "fair"]), now)


def end_by_lot(model: QueueModel, pick: random.Random, document: int, now: float) -> None:
    kind, actual = pick.choice(["finish", "lose", "fail", "cancel"]), pick.choice([0.5, 6.0, 30.0])
    if kind == "finish":
        model.finish(document, now, actual)
    elif kind == "lose":
        model.lose(document, now)
    elif kind == "fail":
        model.fail_attempt(document, now, actual, now + 5.0)
    else:
        model.cancel(pick.choice([document, 0]), now, actual)
