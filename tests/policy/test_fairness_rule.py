"""Fairness figures: Jain's index, the bounds, shares of the work, and where a customer stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.customers import Fairness, Overdue, Share
from fairlead.policy.fair import FairRule
from fairlead.policy.fairness import figures, jain_index, newcomer_bound, standing, start_bound
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import Queue, QueueState, Start
from fairlead.policy.queue_entry import QueuedDocument
from fairlead.policy.queue_events import Ended, MemberChanged, Served
from fairlead.policy.quotas import Quota

UNIT = 6.0
RULE = FairRule(unit=UNIT, allowance=5.0)  # beyond 30 seconds of work
NAMES = dict(enumerate(["zero", "acme", "brine", "cask", "dune"])) | {100: "group"}
ACME, BRINE, CASK, DUNE, GROUP = 1, 2, 3, 4, 100
works = st.lists(st.floats(0.1, 1e6), min_size=2, max_size=20)


def share(had: float, *, weight: float = 1.0, waiting: int = 1) -> Share:
    return Share("x", had, 0.0, 0.0, weight, waiting)


class Scene:
    """A queue that is wholly in memory, and a clock."""

    def __init__(self, policy: Literal["classic", "fair"] = "fair") -> None:
        self.queue = Queue(RULE, OverdueLane(after=100.0), QueueState(policy=policy))
        self.now = 1000.0
        self._number = 0

    def submit(
        self,
        customer: int,
        documents: int = 1,
        estimate: float = UNIT,
        *,
        pipeline: str = "default",
        submitted_at: float | None = None,
    ) -> None:
        for _ in range(documents):
            self._number += 1
            document = QueuedDocument(
                self._number,
                customer,
                (1, self._number),
                estimate=estimate,
                submitted_at=self.now if submitted_at is None else submitted_at,
                pipeline=pipeline,
            )
            self.queue.push(document, self.now)

    def change(self, customer: int, **settings: Any) -> None:
        self.queue.fold([MemberChanged(self.now, customer, **settings)])

    def start(self, number: int = 1) -> list[Start]:
        return self.queue.choose(number, self.now)

    def finish(self, start: Start, seconds: float) -> None:
        charge = start.charge
        values = None if charge is None else (charge.seconds, charge.weight, charge.to_tag)
        inner = start.inner
        inner_values = None if inner is None else (inner.seconds, inner.weight, inner.to_tag)
        self.queue.fold(
            [
                Ended(
                    *(self.now, start.customer, start.document.pipeline, seconds, start.payer),
                    *(values, inner_values),
                )
            ]
        )

    def work(self, customer: int, seconds: float) -> None:
        """Let a document of a customer that alone waits take so long."""
        self.submit(customer, estimate=seconds)
        (start,) = self.start()
        assert start.customer == customer
        self.finish(start, seconds)

    def figures(
        self, *, workers: int = 2, longest: float = 10.0, served: Mapping[str, int] | None = None
    ) -> Fairness:
        return figures(
            self.queue,
            names=NAMES,
            now=self.now,
            workers=workers,
            served=served or {},
            longest=longest,
            running_left=4.0,
            lane_claims=1,
            claims=8,
        )


# --- Jain's index ---


@given(works)
def test_equal_work_for_each_weight_gives_one(weights: list[float]) -> None:
    shares = [share(3 * weight, weight=weight) for weight in weights]
    assert jain_index(shares) == pytest.approx(1.0)


@given(st.integers(2, 50))
def test_one_who_has_had_all_gives_one_in_n(number: int) -> None:
    assert jain_index([share(10.0 * (n == 0)) for n in range(number)]) == pytest.approx(1 / number)


@given(works)
def test_the_index_lies_between(had: list[float]) -> None:
    index = jain_index([share(seconds) for seconds in had])
    assert index is not None
    assert 1 / len(had) - 1e-9 <= index <= 1 + 1e-9


def test_only_those_who_wait_are_compared() -> None:
    assert jain_index([share(5.0), share(5.0), share(90.0, waiting=0)]) == pytest.approx(1.0)
    assert jain_index([share(5.0), share(90.0, waiting=0)]) is None


def test_where_nobody_has_had_anything_all_have_had_the_same() -> None:
    assert jain_index([share(0.0), share(0.0)]) == 1.0


# --- bounds ---


def test_the_bound_on_starts_grows_with_accounts_and_falls_with_workers() -> None:
    lane = OverdueLane(after=100.0, share=4)
    assert start_bound(lane, accounts=3, longest=2.0, workers=1) == 100.0 + 13 * 2.0 + 2.0
    assert start_bound(lane, accounts=3, longest=2.0, workers=4) == 100.0 + 13 * 2.0 / 4 + 2.0
    assert start_bound(None, accounts=3, longest=2.0, workers=4) is None
    assert start_bound(lane, accounts=3, longest=2.0, workers=0) is None


def test_the_bound_for_a_newcomer_has_no_backlog_in_it() -> None:
    lane = OverdueLane(share=4)
    values = {"longest": 10.0, "running_left": 4.0}
    assert newcomer_bound(lane, before=0, workers=1, **values) == 4.0 + 2 * 10.0
    assert newcomer_bound(lane, before=3, workers=2, **values) == (4.0 + 3 * 10.0 + 3 * 10.0) / 2
    assert newcomer_bound(None, before=3, workers=2, **values) == (4.0 + 3 * 10.0) / 2
    assert newcomer_bound(lane, before=3, workers=0, **values) is None


def test_accounts_that_have_had_more_are_not_before_a_newcomer() -> None:
    scene = Scene()
    scene.work(ACME, 12.0)
    scene.submit(ACME, 50)
    assert scene.figures().newcomer_bound == (4.0 + 2 * 10.0) / 2  # the lane alone
    scene.submit(BRINE)
    assert scene.figures().newcomer_bound == (4.0 + 10.0 + 2 * 10.0) / 2


def test_what_has_faded_while_it_waited_is_before_a_newcomer() -> None:
    scene = Scene()
    scene.work(ACME, 12.0)
    scene.submit(ACME)
    scene.now += RULE.reset_interval * math.log1p(12.0 / UNIT) + 1
    assert scene.figures().newcomer_bound == (4.0 + 10.0 + 2 * 10.0) / 2


def test_classic_has_no_bound_for_newcomers() -> None:
    scene = Scene("classic")
    scene.submit(ACME)
    figures = scene.figures()
    assert figures.newcomer_bound is None
    assert figures.start_bound == 100.0 + 5 * 10.0 / 2 + 10.0


def test_a_wait_beyond_the_bound_is_told() -> None:
    scene = Scene()
    scene.submit(ACME)
    scene.now += 135.0
    figures = scene.figures()
    assert (figures.start_bound, figures.bound_broken) == (135.0, False)
    scene.now += 1.0
    assert scene.figures().bound_broken


# --- shares of the work ---


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_who_has_had_more_is_ahead_and_who_less_is_behind(
    policy: Literal["classic", "fair"],
) -> None:
    scene = Scene(policy)
    scene.work(ACME, 9.0)
    scene.work(BRINE, 3.0)
    scene.submit(ACME)
    scene.submit(BRINE, 2)
    figures = scene.figures()
    assert [
        (account.name, account.had_lately, account.share, account.behind)
        for account in figures.accounts
    ] == [
        ("acme", 9.0, 0.75, -3.0),
        ("brine", 3.0, 0.25, 3.0),
    ]
    assert [account.waiting for account in figures.accounts] == [1, 2]
    assert figures.worst == figures.accounts[1]
    assert (figures.policy, figures.waiting_customers, figures.lane_share) == (policy, 2, 0.125)


def test_shares_are_by_weight() -> None:
    scene = Scene()
    scene.queue.fold([MemberChanged(scene.now, ACME, weight=3.0)])
    scene.work(ACME, 9.0)
    scene.work(BRINE, 3.0)
    scene.submit(ACME)
    scene.submit(BRINE)
    figures = scene.figures()
    assert [account.behind for account in figures.accounts] == [0.0, 0.0]
    assert figures.jain_index == pytest.approx(1.0)


def test_work_done_fades_and_is_then_left_out() -> None:
    scene = Scene()
    scene.work(ACME, 9.0)
    scene.now += RULE.reset_interval
    (acme,) = scene.figures().accounts
    assert acme.had_lately == pytest.approx(9.0 / math.e, abs=0.001)
    scene.now += 20 * RULE.reset_interval
    assert scene.figures().accounts == ()


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_a_shared_account_counts_as_one(policy: Literal["classic", "fair"]) -> None:
    scene = Scene(policy)
    changes = [
        MemberChanged(scene.now, customer, account=GROUP, weight=2.0) for customer in (CASK, DUNE)
    ]
    scene.queue.fold(changes)
    scene.work(CASK, 6.0)
    scene.work(DUNE, 4.0)
    scene.work(ACME, 5.0)
    scene.submit(DUNE, 3)
    figures = scene.figures()
    assert [(account.name, account.had_lately, account.weight) for account in figures.accounts] == [
        ("acme", 5.0, 1.0),
        ("group", 10.0, 2.0),
    ]
    assert [account.waiting for account in figures.accounts] == [0, 3]
    assert figures.waiting_customers == 1


@given(
    st.lists(st.tuples(st.sampled_from([ACME, BRINE, CASK]), st.floats(0.1, 50)), max_size=12),
    st.floats(0, 5000),
)
def test_behind_and_ahead_add_up_to_nothing(done: list[tuple[int, float]], later: float) -> None:
    scene = Scene()
    for customer, seconds in done:
        scene.work(customer, seconds)
    scene.now += later
    accounts = scene.figures().accounts
    assert sum(account.behind for account in accounts) == pytest.approx(0.0, abs=0.01)
    assert not accounts or sum(account.share for account in accounts) == pytest.approx(
        1.0, abs=0.001
    )


# --- the longest wait ---


def test_the_most_overdue_has_waited_longest_for_a_start() -> None:
    scene = Scene()
    assert scene.figures().most_overdue is None
    scene.submit(ACME, 2)
    scene.now += 5.0
    scene.submit(BRINE)
    scene.now += 5.0
    scene.start()  # of acme
    scene.now += 3.0
    overdue = scene.figures().most_overdue
    assert overdue is not None
    assert (overdue.customer, overdue.seconds) == ("brine", 8.0)


def test_who_may_not_run_is_not_overdue() -> None:
    scene = Scene()
    scene.submit(ACME)
    scene.queue.fold([MemberChanged(scene.now, ACME, is_paused=True)])
    figures = scene.figures()
    assert figures.most_overdue is None
    assert figures.waiting_customers == 0
    assert [account.waiting for account in figures.accounts] == [1]


# --- customers that could not start now do not compete ---

Hold = Callable[["Scene"], Mapping[str, int]]
"""Holds back the documents of brine; returns how many workers serve each queue."""


def paused(scene: Scene) -> Mapping[str, int]:
    scene.submit(BRINE, 4)
    scene.change(BRINE, is_paused=True)
    return {"default": 2}


def at_its_cap(scene: Scene) -> Mapping[str, int]:
    scene.change(BRINE, cap=1)
    scene.submit(BRINE, 5)
    scene.start()
    return {"default": 2}


def beyond_its_quota(scene: Scene) -> Mapping[str, int]:
    scene.queue.state.quotas["slow"] = Quota(rate=0.01)
    scene.submit(BRINE, 5, pipeline="slow")
    scene.start()
    return {"default": 2, "slow": 2}


def unserved(scene: Scene) -> Mapping[str, int]:
    scene.submit(BRINE, 4, pipeline="slow")
    return {"default": 2}


@pytest.mark.parametrize("hold", [paused, at_its_cap, beyond_its_quota, unserved])
@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_who_cannot_start_is_not_treated_unfairly(
    policy: Literal["classic", "fair"], hold: Hold
) -> None:
    scene = Scene(policy)
    for customer in (ACME, CASK, DUNE):
        scene.work(customer, 9.0)
    served = hold(scene)
    scene.submit(ACME)
    scene.submit(CASK)
    figures = scene.figures(served=served)
    assert figures.jain_index == pytest.approx(1.0)
    assert figures.waiting_customers == 2
    assert [(share.name, share.may_start, share.behind) for share in figures.accounts] == [
        ("acme", True, 0.0),
        ("brine", False, 0.0),
        ("cask", True, 0.0),
        ("dune", False, 0.0),  # idle
    ]
    assert figures.worst is not None
    assert figures.worst.name != "brine"


@pytest.mark.parametrize("hold", [paused, at_its_cap, beyond_its_quota, unserved])
def test_no_bound_is_broken_for_who_cannot_start(hold: Hold) -> None:
    scene = Scene("classic")
    served = hold(scene)
    scene.now += 90.0  # the quota of 0.01 a second opens after 100
    scene.submit(ACME)
    scene.now += 9.0
    figures = scene.figures(served=served)
    assert figures.most_overdue == Overdue("acme", 9.0)
    assert not figures.bound_broken


def test_a_wait_while_it_could_not_start_does_not_count() -> None:
    scene = Scene("classic")
    scene.change(BRINE, cap=1)
    scene.submit(BRINE, 2)
    (start,) = scene.start()
    scene.now += 500.0
    scene.finish(start, 500.0)
    scene.submit(ACME)
    scene.change(ACME, is_paused=True)
    scene.now += 500.0
    scene.change(ACME, is_paused=False)
    scene.now += 3.0
    assert scene.figures().most_overdue == Overdue("brine", 503.0)
    scene.change(BRINE, is_paused=True)
    assert scene.figures().most_overdue == Overdue("acme", 3.0)


def test_a_wait_that_a_quota_or_a_lack_of_workers_ended_does_not_count() -> None:
    scene = Scene("classic")
    scene.queue.state.quotas["slow"] = Quota(max_running=1)
    scene.submit(BRINE, 2, pipeline="slow")
    (start,) = scene.start()
    scene.now += 500.0
    assert scene.figures().most_overdue is None
    scene.finish(start, 500.0)
    scene.now += 2.0
    assert scene.figures().most_overdue == Overdue("brine", 2.0)
    scene.now += 500.0
    scene.queue.fold([Served(scene.now, "slow"), Served(scene.now, "never-used")])
    assert scene.figures().most_overdue == Overdue("brine", 0.0)
    assert "never-used" not in scene.queue.state.quotas


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_an_old_document_that_returns_makes_no_wait_longer(
    policy: Literal["classic", "fair"],
) -> None:
    scene = Scene(policy)
    scene.submit(ACME, submitted_at=10.0)  # a retry
    scene.now += 5.0
    assert scene.figures().most_overdue == Overdue("acme", 5.0)
    scene.submit(ACME, submitted_at=7.0)
    scene.now += 5.0
    assert scene.figures().most_overdue == Overdue("acme", 10.0)


def test_a_shared_account_waits_since_one_of_its_customers_may_start() -> None:
    scene = Scene()
    scene.change(CASK, account=GROUP)
    scene.submit(CASK)
    scene.change(CASK, account=GROUP, is_paused=True)
    scene.now += 500.0
    assert scene.figures().most_overdue is None
    scene.change(CASK, account=GROUP)
    scene.now += 4.0
    assert scene.figures().most_overdue == Overdue("group", 4.0)


def test_the_bound_is_that_of_the_queue_with_the_fewest_workers() -> None:
    scene = Scene("classic")
    scene.submit(ACME)
    served = {"default": 4, "slow": 1}
    wide = scene.figures(workers=5, served=served).start_bound
    scene.submit(ACME, pipeline="slow")
    narrow = scene.figures(workers=5, served=served).start_bound
    assert (wide, narrow) == (100.0 + 5 * 10.0 / 4 + 10.0, 100.0 + 5 * 10.0 + 10.0)


@pytest.mark.parametrize("policy", ["classic", "fair"])
def test_a_broken_bound_is_told_once_for_each_wait(policy: Literal["classic", "fair"]) -> None:
    scene = Scene(policy)
    scene.submit(ACME)
    scene.submit(BRINE, pipeline="slow")
    scene.now += 200.0
    before = scene.now - 100.0
    longest = scene.queue.longest_untold_wait(scene.now, before, ["default"])
    assert longest is not None
    since, entry = longest
    assert (since, entry.member.id) == (scene.now - 200.0, ACME)
    entry.member.told_of = since
    assert scene.queue.longest_untold_wait(scene.now, before, ["default"]) is None
    other = scene.queue.longest_untold_wait(scene.now, before)
    assert other is not None
    assert other[1].member.id == BRINE
    assert scene.queue.longest_untold_wait(scene.now, scene.now - 200.0) is None


# --- where a customer stands ---


def test_a_newcomer_has_had_nothing() -> None:
    scene = Scene()
    own = standing(scene.queue, ACME, scene.now)
    assert (own.count, own.had_lately, own.is_beyond) == (0, 0.0, False)
    assert own.fades_at == scene.now
    assert (own.accounts_before, own.accounts_beyond) == (0, 0)


def test_who_has_had_less_or_came_earlier_is_before() -> None:
    scene = Scene()
    scene.work(ACME, 12.0)
    scene.submit(BRINE)
    scene.submit(ACME)
    scene.submit(CASK)
    acme = standing(scene.queue, ACME, scene.now)
    assert (acme.count, acme.had_lately, acme.accounts_before) == (-3, 12.0, 2)
    assert standing(scene.queue, BRINE, scene.now).accounts_before == 0
    assert standing(scene.queue, CASK, scene.now).accounts_before == 1
    assert standing(scene.queue, DUNE, scene.now).accounts_before == 2  # if it submitted now


def test_what_one_has_had_fades_by_the_time_that_is_told() -> None:
    scene = Scene()
    scene.work(ACME, 12.0)
    fades_at = standing(scene.queue, ACME, scene.now).fades_at
    scene.now += 60.0
    assert standing(scene.queue, ACME, scene.now).fades_at == pytest.approx(fades_at)
    scene.now = fades_at + 0.001
    own = standing(scene.queue, ACME, scene.now)
    assert (own.count, own.had_lately) == (0, 0.0)


def test_beyond_the_allowance_one_shares_with_the_others_there() -> None:
    scene = Scene()
    for customer in (ACME, BRINE):
        scene.work(customer, 31.0)
        scene.submit(customer, 2)
    scene.submit(CASK)
    acme, brine = (standing(scene.queue, id_, scene.now) for id_ in (ACME, BRINE))
    assert acme.is_beyond
    assert brine.is_beyond
    assert (acme.accounts_before, acme.accounts_beyond) == (1, 1)
    assert (brine.accounts_before, brine.accounts_beyond) == (2, 1)
    cask = standing(scene.queue, CASK, scene.now)
    assert (cask.is_beyond, cask.accounts_before, cask.accounts_beyond) == (False, 0, 2)


def test_inside_a_shared_account_the_place_is_that_of_the_account() -> None:
    scene = Scene()
    scene.queue.fold(
        [MemberChanged(scene.now, customer, account=GROUP) for customer in (CASK, DUNE)]
    )
    scene.work(CASK, 31.0)
    scene.submit(DUNE)
    scene.submit(ACME)
    dune = standing(scene.queue, DUNE, scene.now)
    assert (dune.count, dune.had_lately) == (-1, 0.0)
    assert (dune.is_beyond, dune.accounts_before) == (True, 1)
    acme = standing(scene.queue, ACME, scene.now)
    assert (acme.accounts_before, acme.accounts_beyond) == (0, 1)
