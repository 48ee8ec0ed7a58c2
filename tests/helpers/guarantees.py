"""The bounds of docs/discussion/fair.md#the-bounds (G1 to G4) as checks of finished runs.

A check returns the largest ratio of what was observed to its bound: above 1 the guarantee is
broken. Checks use the log of the run. They believe the queue's places only where these make the
check stricter or where the guarantee itself speaks of places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from queue_model import Place
from trace_driver import Entry, Run

ROUNDING = 1e-5
BROKEN = math.inf

Check = Callable[["History"], float]


@dataclass
class State:
    """The state that follows from the log alone, without a queue."""

    accounts: dict[str, str] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    processing: dict[int, str] = field(default_factory=dict)
    delayed: dict[int, str] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    caps: dict[str, int | None] = field(default_factory=dict)

    def follow(self, entry: Entry) -> None:
        for documents in (self.waiting, self.processing, self.delayed):
            documents.pop(entry.document, None)
        into = {
            "submit": self.waiting,
            "retried": self.waiting,
            "lost": self.waiting,
            "start": self.processing,
            "failed": self.delayed,
        }
        if entry.kind in into:
            self.accounts.setdefault(entry.name, entry.name)
            into[entry.kind][entry.document] = entry.name
        elif entry.kind == "pause":
            self.paused.add(entry.name)
        elif entry.kind == "resume":
            self.paused.discard(entry.name)
        elif entry.event is not None and entry.kind == "cap":
            self.caps[entry.name] = entry.event.cap
        elif entry.event is not None and entry.kind == "account":
            self.accounts[entry.name] = entry.event.account or entry.name

    def may_run(self, customer: str) -> bool:
        cap = self.caps.get(customer)
        is_at_cap = cap is not None and list(self.processing.values()).count(customer) >= cap
        return customer in self.waiting.values() and customer not in self.paused and not is_at_cap

    def queue(self, *, by_account: bool) -> frozenset[str]:
        """The accounts, or the customers, with something that may run."""
        runnable = [customer for customer in self.accounts if self.may_run(customer)]
        return frozenset(
            self.accounts[customer] if by_account else customer for customer in runnable
        )

    def pending(self) -> frozenset[str]:
        """The accounts with something pending."""
        holders = (self.waiting, self.processing, self.delayed)
        return frozenset(self.accounts[name] for names in holders for name in names.values())


class History:
    """A finished run, with the data that checks need about each entry of its log.

    Weights and accounts are set at the beginning of the run, before the first submission.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.settings = run.settings
        self.log = run.log
        self.is_fair = run.settings.policy == "fair"
        self.weights = {
            entry.name: entry.event.weight
            for entry in run.log
            if entry.kind == "weight" and entry.event is not None
        }
        self.accounts: dict[str, str] = {}
        self.queues: list[frozenset[str]] = []
        """After each entry: the accounts (under classic: the customers) that may run."""
        self.pending: list[frozenset[str]] = []
        for _, state in self.states():
            self.queues.append(state.queue(by_account=self.is_fair))
            self.pending.append(state.pending())
            self.accounts.update(state.accounts)
        self.lengths: dict[str | None, float] = {}
        for submission in run.submissions:
            for key in (None, self.accounts[submission.event.name]):
                self.lengths[key] = max(self.longest(key), self.length(submission.document))

    def states(self) -> Iterator[tuple[Entry, State]]:
        """Each entry, and the state right after it; the state is the same object every time."""
        state = State()
        for entry in self.log:
            state.follow(entry)
            yield entry, state

    def account(self, entry: Entry) -> str:
        return self.accounts.get(entry.name, entry.name)

    def owner(self, entry: Entry) -> str:
        return self.account(entry) if self.is_fair else entry.name

    def weight(self, account: str) -> float:
        return self.weights.get(account, 1.0)

    def length(self, document: int) -> float:
        event = self.run.submissions[document].event
        return max(event.seconds, event.estimate)

    def longest(self, account: str | None = None) -> float:
        """The longest document of the account, or of all."""
        return self.lengths.get(account, 0.0)

    def lane_work(self, accounts: int) -> float:
        share = self.settings.share
        if share == 0:
            return 0.0
        return (math.ceil((accounts + 1) / (share - 1)) + 1) * self.longest()

    def next_start(self, index: int, owner: str) -> int | None:
        """The entry of its next start, if it stays in the queue until then."""
        for later in range(index + 1, len(self.log)):
            if self.log[later].kind == "start" and self.owner(self.log[later]) == owner:
                return later
            if owner not in self.queues[later]:
                return None
        return None


def ratio(observed: float, bound: float) -> float:
    return observed / (bound + ROUNDING)


def newcomer_waits(history: History) -> float:
    """G1: a newcomer waits for what runs and for the accounts placed before it, once each."""
    worst = 0.0
    for index, entry in enumerate(history.log):
        if entry.kind == "submit" and is_newcomer(history, index):
            start = history.next_start(index, history.account(entry))
            if start is not None:
                waited = history.log[start].at - entry.at
                worst = max(worst, ratio(waited, newcomer_bound(history, index)))
    return worst


def is_newcomer(history: History, index: int) -> bool:
    """Nothing pending, and idle for so long that all it ever had must have faded."""
    entry, settings = history.log[index], history.settings
    account = history.account(entry)
    if account in history.pending[index - 1] or account not in history.queues[index]:
        return False
    own = [earlier for earlier in history.log[:index] if history.account(earlier) == account]
    work = sum(history.length(earlier.document) for earlier in own if earlier.kind == "start")
    if work == 0:
        return True
    fading = settings.interval * math.log1p(work / history.weight(account) / settings.unit)
    return (
        entry.at - max(earlier.at for earlier in own if earlier.document >= 0) > fading + ROUNDING
    )


def newcomer_bound(history: History, index: int) -> float:
    entry = history.log[index]
    account = history.account(entry)
    claims = next(later for later in history.log[index:] if later.kind == "claims")
    ticket = claims.places[account][2] if account in claims.places else 0
    first = (0, entry.at, ticket)
    before = [name for name, place in claims.places.items() if name != account and place < first]
    work = rest_of_what_runs(history, index)
    work += sum(history.longest(name) for name in before) + history.lane_work(len(before))
    return work / history.run.workers


def rest_of_what_runs(history: History, index: int) -> float:
    now = history.log[index].at
    ends: dict[int, float] = {}
    for entry in history.log[:index]:
        ends.pop(entry.document, None)
        if entry.kind == "start":
            seconds = history.run.submissions[entry.document].event.seconds
            ends[entry.document] = entry.at + seconds
    return sum(end - now for end in ends.values())


def faded_accounts_start(history: History) -> float:
    """G2: an account within its allowance starts soon after its debt has faded."""
    worst = 0.0
    previous: Mapping[str, Place] = {}
    audits = {account: audit_ranks(history, account) for account in set(history.accounts.values())}
    for index, entry in enumerate(history.log):
        if entry.kind not in ("start", "claims", "claimed"):
            continue
        for account in history.queues[index]:
            place = entry.places.get(account)
            engine_rank = place[1] if place is not None and place[0] == 0 else math.inf
            audited = audits[account].get(index, math.inf)
            if audited < engine_rank - ROUNDING or (
                place != previous.get(account) and engine_rank < math.inf
            ):
                rank = min(engine_rank, audited)
                worst = max(worst, lateness(history, index, account, rank))
        previous = entry.places
    return worst


def lateness(history: History, index: int, account: str, rank: float) -> float:
    start = history.next_start(index, account)
    if start is None or history.log[start].at <= rank:
        return 0.0
    others = history.queues[last_before_claims(history, index, rank)] - {account}
    work = sum(history.longest(name) for name in others) + history.lane_work(len(others))
    bound = history.longest() + work / history.run.workers
    return ratio(history.log[start].at - rank, bound)


def last_before_claims(history: History, index: int, at: float) -> int:
    """The last entry before this time or, if workers claim at this very time, before they do."""
    last = index
    for later in range(index, len(history.log)):
        entry = history.log[later]
        if entry.at < at or (entry.at == at and entry.kind == "claims"):
            last = later
    return last


def audit_ranks(history: History, account: str) -> dict[int, float]:
    """After each entry: the rank by the account's work; only if it never exceeds its allowance."""
    settings, weight = history.settings, history.weight(account)
    starts = [start for start in history.run.starts if history.account(start) == account]
    work = sum(history.length(start.document) for start in starts) / weight
    if work >= settings.allowance * settings.unit:
        return {}
    ranks, debt, brought = {}, 0.0, 0.0
    for index, entry in enumerate(history.log):
        fade = math.exp(-(entry.at - brought) / settings.interval)
        debt, brought = max(0.0, (debt + settings.unit) * fade - settings.unit), entry.at
        if entry.document >= 0 and history.account(entry) == account:
            estimate = history.run.submissions[entry.document].event.estimate
            if entry.kind == "start":
                debt += estimate / weight
            elif has_run(history, index):
                debt = max(0.0, debt + (entry.actual - estimate) / weight)
        ranks[index] = entry.at + settings.interval * math.log1p(debt / settings.unit)
    return ranks


def has_run(history: History, index: int) -> bool:
    """Whether the entry ends an attempt: also cancelling does, if the document was started."""
    entry = history.log[index]
    if entry.kind != "cancel":
        return entry.kind in ("end", "failed", "lost")
    own = [earlier.kind for earlier in history.log[:index] if earlier.document == entry.document]
    return own[-1] == "start"


def shares_are_equal(history: History) -> float:
    """G3: accounts waiting beyond their allowance are served equally by weight."""
    accounts = [
        name for name in set(history.accounts.values()) if has_right_estimates(history, name)
    ]
    return max((difference(history, *pair) for pair in combinations(accounts, 2)), default=0.0)


def has_right_estimates(history: History, account: str) -> bool:
    own = [entry for entry in history.log if history.account(entry) == account]
    events = [entry.event for entry in own if entry.kind == "submit" and entry.event is not None]
    return all(event.seconds == event.estimate for event in events) and not any(
        entry.kind in ("lost", "cancel", "failed", "reset") for entry in own
    )


def difference(history: History, one: str, other: str) -> float:
    """The largest difference of work per weight while both wait; it ends at a lane claim."""
    bound = sum(history.longest(name) / history.weight(name) for name in (one, other))
    worst, advances = 0.0, [0.0]
    both_beyond = False
    for index, entry in enumerate(history.log):
        owner = history.account(entry)
        if entry.start is not None and owner in (one, other):
            if entry.start.lane and entry.start.charged == "tag":
                return worst
            if both_beyond:
                estimate = history.run.submissions[entry.document].event.estimate
                work = estimate / history.weight(owner)
                advances.append(advances[-1] + (work if owner == one else -work))
                worst = max(worst, ratio(max(advances) - min(advances), bound))
        if not {one, other} <= history.queues[index]:
            both_beyond = False
        elif entry.kind in ("start", "claims", "claimed"):
            was_beyond = both_beyond
            both_beyond = all(
                name in entry.places and entry.places[name][0] == 1 for name in (one, other)
            )
            if not was_beyond:
                advances = [0.0]
    return worst


def nobody_starves(history: History) -> float:
    """G4: an account with documents that may run gets a start soon, under both policies."""
    if history.settings.share == 0:
        return 0.0
    return max((longest_gap(history, owner) for owner in owners(history)), default=0.0)


def owners(history: History) -> set[str]:
    return set(history.accounts.values() if history.is_fair else history.accounts)


def longest_gap(history: History, owner: str) -> float:
    worst, since = 0.0, math.inf
    others: set[str] = set()
    for index, entry in enumerate(history.log):
        if since < math.inf:
            others |= history.queues[index]
            worst = max(worst, ratio(entry.at - since, gap_bound(history, len(others))))
        is_start = entry.kind == "start" and history.owner(entry) == owner
        if owner not in history.queues[index]:
            since = math.inf
        elif is_start or since == math.inf:
            since, others = entry.at, set(history.queues[index])
    return worst


def gap_bound(history: History, accounts: int) -> float:
    settings, longest = history.settings, history.longest()
    claims = settings.share * accounts + 1
    return settings.lane_after + claims * longest / history.run.workers + longest


def lane_share(history: History) -> float:
    """The lane takes at most one of m claims, from the first claim on."""
    worst, lane = 0.0, 0
    for claims, entry in enumerate(history.run.starts, start=1):
        lane += entry.start is not None and entry.start.lane
        if lane:
            share = history.settings.share
            worst = max(worst, lane * share / claims if share else BROKEN)
    return worst


def works_while_it_can(history: History) -> float:
    """Work conserving: no worker is idle while something may run."""
    for entry, state in history.states():
        if entry.kind == "claimed" and entry.idle > 0 and runnable(history, state):
            return BROKEN
    return 0.0


def runnable(history: History, state: State) -> list[int]:
    """The documents that may run, apart from pipelines with a limit."""
    documents = []
    for document, customer in state.waiting.items():
        name = history.run.submissions[document].event.pipeline
        pipeline = history.settings.pipelines.get(name)
        is_open = pipeline is None or (
            pipeline.limit is None
            and (pipeline.max_running or math.inf) > running_in(history, state, name)
        )
        if is_open and state.may_run(customer):
            documents.append(document)
    return documents


def running_in(history: History, state: State, pipeline: str) -> int:
    events = [history.run.submissions[document].event for document in state.processing]
    return sum(event.pipeline == pipeline for event in events)


def starts_are_allowed(history: History) -> float:
    """Only what waits starts; no customer that is paused or at its cap, no full pipeline."""
    state = State()
    for entry in history.log:
        if entry.kind == "start":
            name = history.run.submissions[entry.document].event.pipeline
            pipeline = history.settings.pipelines.get(name)
            most = pipeline.max_running if pipeline is not None else None
            is_full = most is not None and running_in(history, state, name) >= most
            if entry.document not in state.waiting or not state.may_run(entry.name) or is_full:
                return BROKEN
        state.follow(entry)
    return 0.0


def first_come_first_served(history: History) -> float:
    """FIFO in a customer and pipeline, urgent aside; under classic also within a priority."""
    state = State()
    urgent = {
        submission.event.name for submission in history.run.submissions if submission.event.urgent
    }
    for entry in history.log:
        if entry.kind == "start" and (history.is_fair or entry.name not in urgent):
            key = order_key(history, entry.document)
            for document in state.waiting:
                if document < entry.document and order_key(history, document) == key:
                    return BROKEN
        state.follow(entry)
    return 0.0


def order_key(history: History, document: int) -> tuple[object, ...]:
    submission = history.run.submissions[document]
    event = submission.event
    priority = 0 if history.is_fair else submission.priority
    return event.name, event.pipeline, event.urgent, priority


FOR_BOTH: dict[str, Check] = {
    "G4": nobody_starves,
    "lane share": lane_share,
    "work conserving": works_while_it_can,
    "allowed starts": starts_are_allowed,
    "FIFO": first_come_first_served,
}
FOR_FAIR: dict[str, Check] = {
    "G1": newcomer_waits,
    "G2": faded_accounts_start,
    "G3": shares_are_equal,
}


def checks_of(policy: str) -> dict[str, Check]:
    return {**FOR_FAIR, **FOR_BOTH} if policy == "fair" else FOR_BOTH
