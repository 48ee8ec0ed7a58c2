"""The data of pages and streams: the last hour, rows, charts, timelines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Fairlead
from fairlead.i18n import translator
from fairlead.model.customers import Share
from fairlead.model.documents import (
    CheckedDocument,
    Claim,
    Delayed,
    Done,
    Event,
    EventKind,
    Failed,
    Moved,
    NewDocument,
    Progress,
    Tally,
)
from fairlead.model.names import new_id
from fairlead.model.results import Interim
from fairlead.server.dashboard.charts import Chart, flow_chart, nice, pending_chart, staircase_chart
from fairlead.server.dashboard.last_hour import (
    HOUR,
    HourTotals,
    LastHour,
    PendingSample,
    Step,
    pending_before,
    percentile,
    read_last_hour,
    staircase,
    thinned,
)
from fairlead.server.dashboard.live_view import Changes, LiveMessage, LiveView, Snapshot
from fairlead.server.dashboard.page import local_path, query
from fairlead.server.dashboard.rows import (
    CustomerTableRow,
    document_row,
    filtered_rows,
    longest_waits,
    short_worker,
    sorted_rows,
    work_figures,
)
from fairlead.server.dashboard.timeline import attempts, timeline

NOW = 1_800_000_000.0
DONE = Done("text/plain", {}, "00000000.1", "0" * 64, 2.0)


def event(kind: EventKind, at: float, document: str | None = None, **data: Any) -> Event:
    return Event(1, at, kind, "acme", document, data)


# --- the last hour ---


def test_sums_forget_what_is_older_than_an_hour() -> None:
    sums = HourTotals()
    sums.add(NOW, "acme", 3)
    sums.add(NOW + 1800, "globex", 1)
    assert sums.by_name == {"acme": 3, "globex": 1}
    sums.forget(NOW + HOUR + 120)
    assert sums.by_name == {"globex": 1}
    sums.forget(NOW + 3 * HOUR)
    assert sums.by_name == {}


@given(st.lists(st.tuples(st.integers(0, 9000), st.sampled_from("abc"), st.integers(0, 9))))
def test_sums_are_those_of_the_last_hour(added: list[tuple[int, str, int]]) -> None:
    sums, added = HourTotals(), sorted(added)
    for at, name, amount in added:
        sums.add(at, name, amount)
    sums.forget(9000)
    first = (9000 - 3600) // 60 * 60
    wanted = {
        name: sum(amount for at, other, amount in added if other == name and at >= first)
        for name in "abc"
    }
    amounts = {name: round(sums.by_name.get(name, 0)) for name in "abc"}
    assert amounts == wanted


def test_the_past_knows_who_works_on_what_and_who_waited() -> None:
    last_hour, id_ = LastHour(), new_id(NOW)
    last_hour.hear([event(EventKind.SUBMITTED, NOW, id_)])
    last_hour.hear([event(EventKind.CLAIMED, NOW + 5, id_, attempt=1, worker="host-1:7.1#2")])
    last_hour.hear([event(EventKind.PROGRESS, NOW + 6, id_, pages_done=3, pages=9)])
    assert [(job.customer, job.pages_done) for job in last_hour.running.values()] == [("acme", 3)]
    assert last_hour.waits_of("acme").median == pytest.approx(5, abs=0.01)
    last_hour.hear([event(EventKind.DONE, NOW + 9, id_, seconds=4.0)])
    assert last_hour.running == {}
    assert (sum(last_hour.arrived.values()), sum(last_hour.ended.values())) == (1, 1)


def test_a_second_attempt_is_no_second_wait() -> None:
    last_hour, id_ = LastHour(), new_id(NOW)
    for attempt in (1, 2):
        last_hour.hear([event(EventKind.CLAIMED, NOW + attempt, id_, attempt=attempt, worker="w")])
        last_hour.hear([event(EventKind.REQUEUED, NOW + attempt, id_, error="timeout", delay=2)])
    assert len(last_hour.waits) == 1
    assert last_hour.running == {}


@pytest.mark.parametrize("kind", [EventKind.RELEASED, EventKind.RESCUED, EventKind.RETRIED])
def test_a_first_attempt_after_another_start_is_no_wait(kind: EventKind) -> None:
    last_hour, id_ = LastHour(), new_id(NOW)
    last_hour.hear([event(EventKind.CLAIMED, NOW + 1, id_, attempt=1, worker="w")])
    last_hour.hear([event(kind, NOW + 2, id_)])
    last_hour.hear([event(EventKind.CLAIMED, NOW + 9000, id_, attempt=1, worker="w")])
    assert [wait.seconds for wait in last_hour.waits] == [pytest.approx(1, abs=0.01)]


@pytest.mark.parametrize(
    ("sent", "name"), [(0, "light"), (3, "light"), (4, "medium"), (22, "heavy")]
)
def test_classes_are_by_what_was_sent(sent: int, name: str) -> None:
    last_hour = LastHour()
    for _ in range(sent):
        last_hour.hear([event(EventKind.SUBMITTED, NOW, new_id(NOW))])
    assert last_hour.class_of("acme") == name


@pytest.mark.parametrize(
    ("values", "part", "wanted"),
    [
        ([], 0.5, None),
        ([7.0], 0.95, 7.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        (list(range(1, 101)), 0.95, 95),
    ],
)
def test_percentiles(values: list[float], part: float, wanted: float | None) -> None:
    assert percentile(values, part) == wanted


def test_what_was_pending_is_computed_back_from_now() -> None:
    changes = [(NOW - 1800, "old", 1), (NOW - 900, "new", 1), (NOW - 600, "old", -1)]
    priorities = {"old": 1, "new": 9}
    samples = pending_before(
        NOW, [Tally("waiting", 9, 1), Tally("done", 1, 1)], changes, priorities.get
    )
    pending = {round(NOW - sample.at): (sample.pending[0], sample.pending[8]) for sample in samples}
    assert len(pending) == 360
    assert (pending[3590], pending[1200], pending[700], pending[0]) == (
        (0, 0),
        (1, 0),
        (1, 1),
        (0, 1),
    )


# --- rows ---


def row(name: str, **values: Any) -> CustomerTableRow:
    usual: dict[str, Any] = {
        "pending": 0, "waiting": 0, "processing": 0, "count": 0, "priority": 1, "resets_at": None,
        "oldest_at": None, "had_lately": 0.0, "share": 0.0, "behind": 0.0, "sent": 0,
        "paused": False, "blocked": False,
    }  # fmt: skip
    return CustomerTableRow(name, **(usual | values))


def test_rows_are_sorted_most_notable_first_and_filtered() -> None:
    rows = [
        row("b", pending=1, waiting=1, oldest_at=5.0),
        row("A"),
        row("c", pending=7, paused=True),
    ]
    assert [row.name for row in sorted_rows(rows, "pending", reverse=False)] == ["c", "b", "A"]
    assert [row.name for row in sorted_rows(rows, "name", reverse=False)] == ["A", "b", "c"]
    assert sorted_rows(rows, "oldest", reverse=False)[0].name == "b"
    assert [row.name for row in filtered_rows(rows, "", "paused")] == ["c"]
    assert [row.name for row in filtered_rows(rows, "a", "all")] == ["A"]
    assert [row["name"] for row in longest_waits(rows)] == ["b"]


def test_who_is_furthest_behind_its_share_is_most_notable() -> None:
    rows = [row("a", behind=-4.0), row("b", behind=3.0, had_lately=1.0), row("c", had_lately=9.0)]
    assert [row.name for row in sorted_rows(rows, "behind", reverse=False)] == ["b", "c", "a"]
    assert [row.name for row in sorted_rows(rows, "had", reverse=False)] == ["c", "b", "a"]


def test_the_work_of_an_account_is_rounded() -> None:
    share = Share("group", 123.456, 0.12345, -7.8912, 2.0, 3)
    assert work_figures(share) == {"had_lately": 120.0, "share": 12.3, "behind": -7.9}
    assert work_figures(None) == {"had_lately": 0.0, "share": 0.0, "behind": 0.0}


def test_customers_do_not_see_the_figures_that_tell_of_others() -> None:
    values = {"pending": 2, "had_lately": 3.0, "share": 40.0, "behind": 1.0}
    message = LiveMessage(1, {}, {}, {"acme": values}, [])
    assert message.text("acme") == '{"customers":{"acme":{"pending":2}}}'
    assert '"share":40.0' in message.text(None)
    only_work = LiveMessage(2, {}, {}, {"acme": {"share": 40.0}}, [])
    assert only_work.text("acme") == ""


def test_workers_have_short_names() -> None:
    assert short_worker("my-host-0badcafe:1234.99#3") == "my-host:1234#3"
    assert short_worker("anything") == "anything"


# --- charts ---


def coordinates(chart: Chart) -> list[float]:
    return [
        float(number) for shape in chart.shapes for number in re.findall(r"-?[\d.]+", shape.path)
    ]


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=9, max_size=9), min_size=2, max_size=30))
def test_every_chart_stays_in_its_frame(levels: list[list[int]]) -> None:
    samples = [PendingSample(NOW - 10 * n, tuple(level)) for n, level in enumerate(levels)][::-1]
    chart = pending_chart(samples, NOW)
    assert chart is not None
    assert all(0 <= coordinate <= chart.width for coordinate in coordinates(chart))
    assert chart.highest == max(1, *(sum(level) for level in levels))


def test_charts_of_nothing_are_none() -> None:
    assert pending_chart([], NOW) is None
    assert flow_chart({}, {}, NOW) is None
    assert staircase_chart([], NOW) is None


def test_a_long_staircase_keeps_its_ends_resets_and_priorities() -> None:
    counts = [*range(0, -1000, -1), *range(0, -500, -1)]
    checks = [CheckedDocument(NOW + n, count, 1 - count // 100) for n, count in enumerate(counts)]
    steps = staircase(checks[::-1])
    few = thinned(steps, 100)
    assert len(few) < 130
    assert (few[0].count, min(step.count for step in few), few[-1].count) == (0, -999, -499)
    assert [step.at for step in few if step.is_reset] == [NOW + 1000]
    turns = {step.at for before, step in pairwise(steps) if step.priority != before.priority}
    assert turns <= {step.at for step in few}
    assert thinned(steps[:50], 100) == steps[:50]


def test_a_staircase_marks_its_resets() -> None:
    steps = [Step(NOW - 300 + n, -n, 1, is_reset=False) for n in range(5)]
    steps.append(Step(NOW - 10, 0, 1, is_reset=True))
    chart = staircase_chart(steps, NOW)
    assert chart is not None
    assert len(chart.resets) == 1
    assert {shape.name for shape in chart.shapes} == {"count", "p1"}


@pytest.mark.parametrize(
    ("value", "wanted"), [(0, 1), (1, 1), (3, 5), (21, 25), (260, 500), (0.3, 0.5)]
)
def test_round_numbers(value: float, wanted: float) -> None:
    assert nice(value) == pytest.approx(wanted)


# --- timelines and the live view, on a real store ---


@pytest.fixture
def clock() -> list[float]:
    return [NOW]


@pytest.fixture
def fairlead(tmp_path: Path, clock: list[float]) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data", clock=lambda: clock[0]) as installation:
        yield installation


def claim(fairlead: Fairlead) -> Claim:
    claimed = fairlead.store.claim("host-1:7.1#2")
    assert claimed is not None
    return claimed


def test_the_life_of_a_document_in_words(fairlead: Fairlead, clock: list[float]) -> None:
    document = fairlead.submit("acme", b"x")
    clock[0] += 3
    first = claim(fairlead)
    clock[0] += 2
    fairlead.store.finish(first, Failed("damaged", "the file ends"))
    fairlead.retry(document.id, by="key-1")
    events = fairlead.store.events_of(document.id)
    entries = timeline(events, translator("en"), is_operator=True)
    assert [entry.text for entry in entries] == [
        "submitted",
        "attempt 1 started, on host:7#2",
        "failed: damaged",
        "retried",
    ]
    assert [entry.after for entry in entries][1:3] == [3.0, 2.0]
    assert entries[-1].by == "key-1"
    own = timeline(events, translator("de"), is_operator=False)
    assert (own[1].text, own[-1].by) == ("Versuch begonnen", None)
    assert [(attempt.outcome, attempt.error) for attempt in attempts(events)] == [
        ("failed", "damaged")
    ]


def test_steps_of_others_and_later_ones_are_no_failures(
    fairlead: Fairlead, clock: list[float]
) -> None:
    document = fairlead.submit("acme", b"x")
    fairlead.store.finish(
        claim(fairlead), Moved("default/pull:fields", Interim(("read", "pull:fields"), 1))
    )
    moved = claim(fairlead)
    fairlead.store.progress([Progress(moved, 1, 2)])
    fairlead.store.finish(moved, Delayed(60.0, Interim(("read", "pull:fields"), 1)))
    events = fairlead.store.events_of(document.id)
    entries = timeline(events, translator("en"), is_operator=False)
    assert [(entry.kind, entry.text) for entry in entries if entry.kind != "claimed"] == [
        ("submitted", "submitted"),
        ("moved", "moved to the queue default/pull:fields for its next steps"),
        ("progress", "progress: 1 of 2"),
        ("later", "the step asked to be called again in 60 s"),
    ]
    assert [(attempt.outcome, attempt.error) for attempt in attempts(events)] == [
        ("moved", None),
        ("attempt-failed", "retry-later"),
    ]


def test_a_paused_customer_is_not_among_those_who_wait() -> None:
    """Regression: a paused customer shown as the oldest wait."""
    rows = [
        row("open", pending=1, waiting=1, oldest_at=9.0),
        row("paused", pending=1, waiting=1, oldest_at=5.0, paused=True),
    ]
    assert [row["name"] for row in longest_waits(rows)] == ["open"]
    assert [row.name for row in filtered_rows(rows, "", "waiting")] == ["open"]
    assert [row.name for row in sorted_rows(rows, "oldest", reverse=False)] == ["open", "paused"]


def test_stairs_and_count_agree(fairlead: Fairlead) -> None:
    """Regression: staircase and count differ by the parts of documents, which are counted."""
    fairlead.submit("acme", b"x")
    part = NewDocument(new_id(NOW), "part.txt", 1, "0" * 64)
    fairlead.store.finish(claim(fairlead), DONE._replace(parts=(part,)))
    steps = staircase(fairlead.store.latest_checks("acme", 100))
    assert [step.count for step in steps] == [0, -1]
    assert steps[-1].count == fairlead.customers.show("acme").count


def test_a_scan_that_was_not_read_is_marked(fairlead: Fairlead) -> None:
    """Regression: a scan without OCR is a green done."""
    scan = fairlead.submit("acme", b"scan").id
    unread = DONE._replace(facts={"words": 0, "warnings": ["scans need the extra ocr"]})
    fairlead.store.finish(claim(fairlead), unread)
    blank = fairlead.submit("acme", b"blank").id
    fairlead.store.finish(claim(fairlead), DONE._replace(facts={"words": 0, "warnings": []}))
    assert document_row(fairlead.document(scan))["error"] == "unread"
    assert document_row(fairlead.document(blank))["error"] is None


def test_stairs_are_read_from_documents(fairlead: Fairlead, clock: list[float]) -> None:
    for gap in (0, 1, 1, 2000, 1):
        clock[0] += gap
        fairlead.submit("acme", b"x")
    steps = staircase(fairlead.store.latest_checks("acme", 100))
    assert [step.count for step in steps] == [0, -1, -2, 0, -1]
    assert [step.is_reset for step in steps] == [False, False, False, True, False]


def test_the_last_hour_is_learnt_from_the_store(fairlead: Fairlead, clock: list[float]) -> None:
    fairlead.submit("long ago", b"x")
    clock[0] += 2 * HOUR
    fairlead.submit("acme", b"x")
    fairlead.store.finish(claim(fairlead), DONE)
    last_hour = read_last_hour(fairlead, fairlead.store.last_event())
    assert set(last_hour.sent.by_name) == {"acme"}
    assert sum(last_hour.ended.values()) == 1
    assert last_hour.samples[-1].pending[0] == 1  # one of the two is still pending


class Viewed:
    """A snapshot with an update for the events since the last one."""

    def __init__(self, fairlead: Fairlead) -> None:
        self._fairlead = fairlead
        self._snapshot, self._past = Snapshot(fairlead), LastHour()
        self._changes, self._seen = Changes(), 0

    def update(self) -> LiveMessage | None:
        events = self._fairlead.store.events(self._seen)
        self._past.hear(events)
        self._changes.note(events)
        message = self._snapshot.update(self._changes, self._past, 1)
        self._changes, self._seen = Changes(everything=False), self._fairlead.store.last_event()
        return message


def test_viewers_get_what_changed_and_only_what_is_theirs(fairlead: Fairlead) -> None:
    viewed = Viewed(fairlead)
    fairlead.submit("acme", b"x")
    fairlead.submit("globex", b"x")
    first = viewed.update()
    assert first is not None
    assert set(first.customers) == {"acme", "globex"}
    assert viewed.update() is None
    document = fairlead.submit("acme", b"y", name="<b>.txt")
    second = viewed.update()
    assert second is not None
    assert second.customers == {"acme": {"pending": 2, "waiting": 2, "count": -1, "sent": 2}}
    assert second.figures["waiting"] == 3
    assert [row["id"] for row in second.documents] == [document.id]
    assert second.text("globex") == ""
    assert '"figures"' not in second.text("acme")
    assert document.id in second.text("acme")
    fairlead.delete(document.id)
    third = viewed.update()
    assert third is not None
    assert third.documents == []


def test_a_reset_by_time_alone_is_sent_too(fairlead: Fairlead, clock: list[float]) -> None:
    viewed = Viewed(fairlead)
    for _ in range(4):
        fairlead.submit("acme", b"x")
    viewed.update()
    clock[0] += 1501
    message = viewed.update()
    assert message is not None
    assert message.customers["acme"] == {"count": 0, "priority": 1, "resets_at": None}


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_rows_follow_the_policy_in_force(fairlead: Fairlead, policy: str) -> None:
    live_view = LiveView(fairlead)
    for _ in range(5):
        fairlead.submit("acme", b"x")
    fairlead.queue.use_policy(policy)
    customer = fairlead.store.customer("acme")
    (row,) = live_view.rows([customer])
    following = fairlead.customers.next_place(customer)
    assert row.priority == following.priority
    assert row.count == (-4 if policy == "classic" else following.count)


# --- addresses ---


@pytest.mark.parametrize(
    "given_path", ["", "x", "//evil", "/\\evil", "https://evil", "/a\r\nb", "/" * 3000]
)
def test_only_addresses_of_ours_are_gone_on_to(given_path: str) -> None:
    assert local_path(given_path) == "/"


def test_addresses_leave_out_what_is_empty() -> None:
    assert query(a="", b=None, c="x y", d=3) == "?c=x+y&d=3"
    assert query() == "?"
