"""How fair the queue is now, and where a customer stands in it.

The figures cover the accounts that compete with each other: a shared account counts as one. Those
whose documents could not start now do not compete: they are paused or at their cap, their quota
holds them back, or no worker serves their queue. Recent work fades with the reset interval, so the
figures cover about the last half hour, under both policies.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from fairlead.model.customers import Fairness, Overdue, Share, Standing
from fairlead.policy.fair import BEYOND_ALLOWANCE, WITHIN_ALLOWANCE, Place
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.queue import Queue, fading
from fairlead.policy.queue_entry import Entry, Member

_FIRST_BEYOND: Place = (BEYOND_ALLOWANCE, -math.inf, 0)
_LEAST_WORK = 0.001
"""Seconds of faded work below which an account without waiting documents is left out."""


def jain_index(shares: Sequence[Share]) -> float | None:
    """Jain's index of the recent work per weight of competing accounts; None for fewer than two.

    1: all have had equally much; 1/n: one has had everything.
    """
    parts = [share.had_lately / share.weight for share in shares if share.competes]
    if len(parts) < 2:
        return None
    squares = sum(part * part for part in parts)
    return sum(parts) ** 2 / (len(parts) * squares) if squares else 1.0


def newcomer_bound(
    lane: OverdueLane | None, *, before: int, longest: float, running_left: float, workers: int
) -> float | None:
    """G1: within how many seconds a customer without recent work gets its first start.

    `before` is how many accounts have a place before it, `running_left` the seconds left of running
    documents. The bound does not depend on the backlog. None: there are no workers.
    """
    if workers < 1:
        return None
    by_lane = 0 if lane is None else math.ceil((before + 1) / (lane.share - 1)) + 1
    return (running_left + (before + by_lane) * longest) / workers


def start_bound(
    lane: OverdueLane | None, *, accounts: int, longest: float, workers: int
) -> float | None:
    """G4: within how many seconds each of the waiting accounts gets a start; None: no bound."""
    if lane is None or workers < 1:
        return None
    return lane.after + (lane.share * accounts + 1) * longest / workers + longest


def figures(
    queue: Queue,
    *,
    names: Mapping[int, str],
    now: float,
    workers: int,
    served: Mapping[str, int],
    longest: float,
    running_left: float,
    lane_claims: int,
    claims: int,
) -> Fairness:
    """The figures of a queue whose members are all loaded.

    `served` is how many of all `workers` serve each queue; without any, all queues count as served.
    `longest` is the longest document in seconds, `running_left` the seconds left of running
    documents; `lane_claims` of all `claims` went through the overdue lane.
    """
    may_start = _entries_that_may_start(queue, served, now)
    queued = [member for member in _competing(queue) if member.id in may_start]
    serving = [served.get(entry.pipeline, workers) for entry in chain(*may_start.values())]
    shares = _shares(queue, names, now, may_start)
    overdue = _most_overdue(queue, chain(*(may_start[member.id] for member in queued)), names, now)
    bound = start_bound(
        queue.lane, accounts=len(queued), longest=longest, workers=min(serving, default=workers)
    )
    return Fairness(
        policy=queue.state.policy,
        workers=workers,
        waiting_customers=sum(not queue.members[id_].is_account for id_ in may_start),
        jain_index=jain_index(shares),
        most_overdue=overdue,
        lane_share=lane_claims / claims if claims else None,
        longest_document=longest,
        newcomer_bound=newcomer_bound(
            queue.lane,
            before=sum(_is_before_newcomers(member.share.place, now) for member in queued),
            longest=longest,
            running_left=running_left,
            workers=workers,
        )
        if queue.is_fair
        else None,
        start_bound=bound,
        bound_broken=overdue is not None and bound is not None and overdue.seconds > bound,
        accounts=shares,
    )


CountPlaces = Callable[[Place], tuple[int, int]]
"""How many accounts have a place before a given one, and how many are beyond their allowance."""


def counter_of_places(queue: Queue) -> CountPlaces:
    """A counter of the places in a queue whose members are all loaded."""
    placed = sorted(
        member.share.place for member in _competing(queue) if member.share.place is not None
    )
    beyond = len(placed) - bisect_left(placed, _FIRST_BEYOND)
    return lambda place: (bisect_left(placed, place), beyond)


def standing(
    queue: Queue, customer: int, now: float, count_places: CountPlaces | None = None
) -> Standing:
    """Where a customer stands under the fair rule.

    Inside a shared account, the count and the recent work are the customer's own; its place is that
    of the account. Pass `count_places` if not all members are loaded, or to ask about many
    customers.
    """
    count = queue.count(customer, now)
    member = queue.members[customer]
    account = member if member.account is None else queue.members[member.account]
    own = _place_now(queue, account, now)
    before, beyond = (count_places or counter_of_places(queue))(own)
    is_itself_beyond = account.share.place is not None and own[0] == BEYOND_ALLOWANCE
    return Standing(
        count=count,
        had_lately=member.share.debt,
        is_beyond=own[0] == BEYOND_ALLOWANCE,
        fades_at=queue.clock.faded_at(member.share, now),
        accounts_before=before,
        accounts_beyond=beyond - is_itself_beyond,
    )


def _place_now(queue: Queue, account: Member, now: float) -> Place:
    """The place of an account, or the one that it would get now."""
    share = account.share
    if share.place is not None:
        return share.place
    queue.clock.fade(share, now)
    if share.debt < queue.rule.allowed_debt:
        return WITHIN_ALLOWANCE, queue.clock.faded_at(share, now), queue.clock.tickets[0]
    return BEYOND_ALLOWANCE, max(share.tag, queue.clock.value), queue.clock.tickets[0]


def _is_before_newcomers(place: Place | None, now: float) -> bool:
    """Whether a place is before that of a new customer that submits now."""
    return place is not None and place[:2] <= (WITHIN_ALLOWANCE, now)


def _competing(queue: Queue) -> Iterator[Member]:
    """The members that compete: under fair, a shared account in place of its customers."""
    if queue.is_fair:
        return (member for member in queue.members.values() if member.account is None)
    return (member for member in queue.members.values() if not member.is_account)


def _entries_that_may_start(
    queue: Queue, served: Mapping[str, int], now: float
) -> dict[int, list[Entry]]:
    """The entries of which workers could start a document now, by member."""
    waiting = [entry for entry in queue.all_entries() if queue.place_of(entry) is not None]
    names = {entry.pipeline for entry in waiting}
    open_ = set(queue.open_pipelines(names & served.keys() if served else names, now))
    entries: dict[int, list[Entry]] = {}
    for entry in waiting:
        if entry.pipeline in open_:
            entries.setdefault(entry.member.id, []).append(entry)
    return entries


def _most_overdue(
    queue: Queue, entries: Iterable[Entry], names: Mapping[int, str], now: float
) -> Overdue | None:
    """The member that could have started longest ago."""
    waits = [(queue.could_start_since(entry), names[entry.member.id]) for entry in entries]
    if not waits:
        return None
    since, name = min(waits)
    return Overdue(name, round(max(0.0, now - since), 3))


def _shares(
    queue: Queue, names: Mapping[int, str], now: float, may_start: Container[int]
) -> tuple[Share, ...]:
    """The accounts with waiting documents or recent work, by name.

    Deleted customers stay in the queue as numbers without a name, and are left out.
    """
    competing = set[int]()
    work, waiting = defaultdict[int, float](float), defaultdict[int, int](int)
    weights: dict[int, float] = {}
    for member in queue.members.values():
        if not member.is_account and member.id in names:
            account = member.id if member.account is None else member.account
            weights[account] = queue.members.get(account, member).share.weight
            waiting[account] += member.waiting
            if member.id in may_start:
                competing.add(account)
            work[account] += fading(member.work, now - member.work_at, queue.rule.reset_interval)
    listed = [id_ for id_ in work if waiting[id_] or work[id_] >= _LEAST_WORK]
    all_work = sum(work[id_] for id_ in listed)
    due = sum(work[id_] for id_ in competing) / (sum(weights[id_] for id_ in competing) or 1.0)
    shares = (
        Share(
            name=names[id_],
            had_lately=round(work[id_], 3),
            share=round(work[id_] / all_work, 4) if all_work else 0.0,
            behind=_rounded(due * weights[id_] - work[id_]) if id_ in competing else 0.0,
            weight=weights[id_],
            waiting=waiting[id_],
            may_start=id_ in competing,
        )
        for id_ in listed
    )
    return tuple(sorted(shares, key=lambda share: share.name))


def _rounded(seconds: float) -> float:
    return round(seconds, 3) + 0.0  # no −0
