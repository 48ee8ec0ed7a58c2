"""Explanations: why a document has its priority, and what it waits for.

A reason is a code with parameters, so that screens can show it in any language; `words` writes it
in English.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from fairlead.model.customers import CustomerRecord, Standing
from fairlead.model.documents import Document
from fairlead.model.explanations import Explanation, PipelineState, QueuePlace, Reason
from fairlead.model.states import State
from fairlead.policy.classic import ClassicPolicy, lowest_bound_passed, priority
from fairlead.policy.fair import FairRule
from fairlead.policy.forecast import Ahead, Outlook, forecast
from fairlead.policy.overdue_lane import OverdueLane, waits_since


class Plural(NamedTuple):
    """A part of a sentence that depends on a number: for one, and for any other."""

    by: str
    one: str
    other: str


PHRASES = {
    "work": Plural("units", "{units} document's worth", "{units} documents' worth"),
    "go_first": Plural(
        "accounts_before",
        "{accounts_before} customer has had less or waited longer, and goes first",
        "{accounts_before} customers have had less or waited longer, and go first",
    ),
    "sharing": Plural(
        "accounts_beyond",
        "{accounts_beyond} other customer",
        "{accounts_beyond} other customers",
    ),
    "others_start": Plural(
        "other_documents",
        "{other_documents} document of others starts before it",
        "{other_documents} documents of others start before it",
    ),
    "own": Plural(
        "own_documents",
        "{own_documents} document of the same customer",
        "{own_documents} documents of the same customer",
    ),
    "others": Plural(
        "other_documents",
        "{other_documents} document of others",
        "{other_documents} documents of others",
    ),
    "customers": Plural(
        "other_customers", "{other_customers} customer", "{other_customers} customers"
    ),
}
"""Parts of the sentences below, by the names of their placeholders."""

WORDS = {
    "count-below": "count {count} is below {bound}: priority {priority}",
    "count-not-below": "count {count} is not below {bound}: priority {priority}",
    "placed-earlier": "count {count} gave priority {priority} by the rules at submission",
    "resets-unless": "resets in {duration} if no other document arrives",
    "resets": "resets in {duration}",
    "reset-due": "the next document gets count 0",
    "no-work-before": (
        "at its submission, its customer had less than one document's worth of work "
        "done lately or waiting: count 0, priority {priority}"
    ),
    "work-before": (
        "at its submission, its customer had {work} of work done lately or waiting: "
        "count {count}, priority {priority}"
    ),
    "costs": "estimated processing time {duration}, weight {weight}",
    "little-lately": (
        "its customer has had less than one document's worth of work lately; {go_first}"
    ),
    "little-lately-first": (
        "its customer has had less than one document's worth of work lately; none that waits "
        "has had less"
    ),
    "had-lately": "its customer has had {work} of work lately; {go_first}",
    "had-lately-first": (
        "its customer has had {work} of work lately; none that waits has had less"
    ),
    "beyond-allowance": (
        "beyond its allowance its customer shares equally with {sharing}; {others_start}"
    ),
    "beyond-allowance-about": "beyond its allowance its customer shares equally with {sharing}",
    "beyond-allowance-alone": (
        "its customer is beyond its allowance: customers within theirs go first"
    ),
    "fades": "this fades: in {duration} it would be first",
    "fades-later": (
        "the work its customer has had lately fades: in {duration} it counts as nothing if "
        "nothing more starts"
    ),
    "account": (
        "its customer shares the account {account}: the account has one place in the queue, "
        "and inside it the customer that has had least goes first"
    ),
    "urgent": "urgent: it goes before the other documents of its customer",
    "paused": "customer {customer} is paused: it starts when the customer is resumed",
    "processing-cap": (
        "customer {customer} is at its cap of documents processing at once "
        "({processing}); it starts when one of them ends"
    ),
    "overdue": "its customer has waited {duration} for a start and is overdue: it may go first",
    "not-before": "it was submitted for a later time: it may start in {duration}",
    "later-again": "its step has asked {calls} times so far to be called again later: it starts in "
    "{duration}",
    "later": "its step asked to be called again later: it starts in {duration}",
    "quota": "it waits for the quota of the pipeline {pipeline} ({limit})",
    "quota-running": (
        "it waits for the quota of the pipeline {pipeline}: documents of it that are processed "
        "at once: {running}"
    ),
    "not-served": "no worker serves the pipeline {pipeline}: it does not start before one does",
    "cannot-run": "pipeline {pipeline} cannot run here: {problem}",
    "retry": "attempt {attempts} failed ({error}): the next one starts in {duration}",
    "ahead": "before it: {own}, {others} ({customers})",
    "ahead-about": "before it, about: {own}, {others} ({customers})",
    "next": "it is next: it starts when a worker is free",
    "processing": "it is being processed, attempt {attempts}",
    "done": "it is done",
    "failed": "it has failed ({error}): {detail}",
    "cancelled": "it was cancelled",
}

FREE_PIPELINE = PipelineState()

DURATIONS = {"duration": "seconds"}
"""Placeholders for lengths of time, with the parameters that have the seconds."""


def words(reason: Reason) -> str:
    """The reason as a sentence in English."""
    shown = {name: _number(value) for name, value in reason.params.items()}
    shown |= {
        name: duration(reason.params[param], _number)
        for name, param in DURATIONS.items()
        if param in reason.params
    }
    for name, plural in PHRASES.items():
        if plural.by in reason.params:
            is_one = reason.params[plural.by] == 1
            shown[name] = (plural.one if is_one else plural.other).format(**shown)
    return WORDS[reason.code].format(**shown)


def why_priority(document: Document, thresholds: Sequence[int]) -> Reason:
    count, level = document.count, document.priority
    if priority(count, thresholds) != level:
        return Reason("placed-earlier", {"count": count, "priority": level})
    passed = lowest_bound_passed(count, thresholds)
    code, bound = ("count-not-below", thresholds[0]) if passed is None else ("count-below", passed)
    return Reason(code, {"count": count, "bound": bound, "priority": level})


def why_reset(policy: ClassicPolicy, customer: CustomerRecord, now: float) -> Reason:
    """When the customer's count goes back to zero."""
    counter = customer.counter
    if counter is None or policy.is_reset(counter, now=now):
        return Reason("reset-due")
    left = counter.updated_at + policy.reset_interval - now
    code = "resets-unless" if policy.reset == "idle" else "resets"
    return Reason(code, {"seconds": round(left)})


def why_standing(
    rule: FairRule, standing: Standing, place: QueuePlace, account: str | None
) -> list[Reason]:
    """Under the fair rule: which customers go before the customer of a document, and why."""
    reasons = [] if account is None else [Reason("account", {"account": account})]
    if standing.is_beyond:
        params = {
            "accounts_beyond": standing.accounts_beyond,
            "other_documents": place.other_documents,
        }
        code = "beyond-allowance-about" if place.is_estimate else "beyond-allowance"
        is_alone = not standing.accounts_beyond
        return [*reasons, Reason("beyond-allowance-alone") if is_alone else Reason(code, params)]
    units = -rule.count(standing.had_lately, 0.0, 1.0)
    params = {"units": units, "accounts_before": standing.accounts_before}
    code = "had-lately" if units else "little-lately"
    return [*reasons, Reason(code if standing.accounts_before else f"{code}-first", params)]


def why_fades(standing: Standing, now: float, *, is_waiting: bool) -> Reason | None:
    """When the work that a customer has had lately counts as nothing."""
    if standing.had_lately <= 0:
        return None if standing.count else Reason("reset-due")
    params = {"seconds": round(max(0.0, standing.fades_at - now), 3)}
    would_be_first = is_waiting and not standing.is_beyond and standing.accounts_before
    return Reason("fades" if would_be_first else "fades-later", params)


def explain(
    document: Document,
    customer: CustomerRecord,
    outlook: Outlook | None,
    *,
    policy: ClassicPolicy | FairRule,
    lane: OverdueLane | None,
    now: float,
    retry_at: float | None = None,
    calls: int = 0,
    pipeline: PipelineState = FREE_PIPELINE,
) -> Explanation:
    """All reasons for a document: for its priority, for its wait, and what would change it.

    `outlook` is None for a document that is not in the queue. `calls` is how often its step has
    asked to be called again later.
    """
    place = None if outlook is None else outlook.place
    reasons = [_why_placed(document, policy)]
    if document.urgent:
        reasons.append(Reason("urgent"))
    if document.state is State.WAITING:
        later = None if retry_at is None else _why_later(document, retry_at - now, calls)
        reasons += _why_waiting(document, customer, place, lane, now, later, pipeline)
    else:
        reasons.append(_why_not_waiting(document))
    if not document.state.is_pending:
        pass  # what its customer has had since does not concern it
    elif isinstance(policy, FairRule):
        reasons += _why_fair(document, customer, place, policy, now)
    else:
        reasons.append(why_reset(policy, customer, now))
    wait = None
    if outlook is not None and pipeline.is_served and not customer.paused:
        wait = forecast(_ahead(document, customer, outlook, lane, now), outlook.flow)
    return Explanation(
        document.id,
        tuple(reasons),
        position=place.position if place else None,
        ahead=place.to_place() if place else None,
        forecast=wait.at(now) if wait else None,
    )


def with_words(
    explanation: Explanation, to_words: Callable[[Reason], str], *, with_others: bool
) -> Explanation:
    """The explanation with its reasons in words.

    Only operators see the names of others, and why a step cannot run.
    """
    reasons = explanation.reasons
    if not with_others:
        reasons = tuple(map(_for_customer, reasons))
    reasons = tuple(replace(reason, words=to_words(reason)) for reason in reasons)
    ahead = explanation.ahead
    if ahead is not None and not with_others:
        ahead = replace(ahead, most=UNSET)
    return replace(explanation, reasons=reasons, ahead=ahead)


def _for_customer(reason: Reason) -> Reason:
    if reason.code == "cannot-run":
        return Reason("not-served", {"pipeline": reason.params["pipeline"]})
    return reason


def _ahead(
    document: Document,
    customer: CustomerRecord,
    outlook: Outlook,
    lane: OverdueLane | None,
    now: float,
) -> Ahead:
    """The documents before a document, as the forecast needs them."""
    place = outlook.place
    return Ahead(
        outlook.document,
        outlook.before,
        behind=_behind(document, customer, place),
        is_closing=customer.standing is not None,
        documents=place.position - 1 if place.is_estimate else 0,
        latest=_latest_start(document, customer, place, lane, now),
    )


def _latest_start(
    document: Document,
    customer: CustomerRecord,
    place: QueuePlace,
    lane: OverdueLane | None,
    now: float,
) -> float | None:
    """Seconds until the overdue lane starts the document; None: the lane does not start it."""
    waited = _waited(customer, now)
    is_oldest = document.submitted_at == customer.oldest_waiting_at and not place.own_documents
    if lane is None or waited is None or not is_oldest:
        return None
    # Once its customer is overdue, the lane must first earn credit for it.
    return max(0.0, lane.after - waited) + lane.share * document.estimate


def _why_placed(document: Document, policy: ClassicPolicy | FairRule) -> Reason:
    if not isinstance(policy, FairRule) or document.policy != policy.label:
        return why_priority(document, policy.thresholds)
    units = -document.count
    params = {"count": document.count, "priority": document.priority, "units": units}
    return Reason("work-before" if units else "no-work-before", params)


def _why_fair(
    document: Document,
    customer: CustomerRecord,
    place: QueuePlace | None,
    rule: FairRule,
    now: float,
) -> list[Reason]:
    """The document's cost and weight, its customer's standing, and when that fades."""
    weight = customer.settings.weight
    reasons = [Reason("costs", {"seconds": round(document.estimate, 3), "weight": weight})]
    standing = customer.standing
    if standing is None:
        return reasons
    if place is not None:
        reasons += why_standing(rule, standing, place, customer.settings.account)
    fades = why_fades(standing, now, is_waiting=place is not None)
    return reasons if fades is None else [*reasons, fades]


def _behind(document: Document, customer: CustomerRecord, place: QueuePlace) -> float:
    """How far behind the front a document is placed, as in `RecentArrival`."""
    if customer.standing is None:
        return float(document.priority)
    return customer.standing.had_lately + place.own_seconds / customer.settings.weight


def _why_waiting(
    document: Document,
    customer: CustomerRecord,
    place: QueuePlace | None,
    lane: OverdueLane | None,
    now: float,
    later: Reason | None,
    pipeline: PipelineState,
) -> list[Reason]:
    obstacle = _why_blocked(document, customer, later, pipeline)
    if obstacle is not None:
        return [obstacle]
    reasons = _why_quota(document.pipeline, pipeline)
    waited = _waited(customer, now)
    if lane is not None and waited is not None and waited > lane.after:
        reasons.append(Reason("overdue", {"seconds": round(waited)}))
    if place is None:
        return reasons
    if place.position > 1:
        params: dict[str, Any] = {
            "own_documents": place.own_documents,
            "other_documents": place.other_documents,
            "other_customers": place.other_customers,
            "seconds": round(place.seconds, 3),
        }
        reasons.append(Reason("ahead-about" if place.is_estimate else "ahead", params))
    elif not pipeline.is_held:
        reasons.append(Reason("next"))
    return reasons


def _why_blocked(
    document: Document, customer: CustomerRecord, later: Reason | None, pipeline: PipelineState
) -> Reason | None:
    """The reason that keeps a document from starting at any place in the queue."""
    if customer.paused:
        return Reason("paused", {"customer": customer.name})
    if later is not None:
        return later
    if pipeline.problem is not None:
        cause = {"pipeline": document.pipeline, "problem": pipeline.problem}
        return Reason("cannot-run", cause)
    if not pipeline.is_served:
        return Reason("not-served", {"pipeline": pipeline.queue})
    if customer.cap is not None and customer.processing >= customer.cap:
        params = {"customer": customer.name, "processing": customer.processing}
        return Reason("processing-cap", params)
    return None


def _why_later(document: Document, left: float, calls: int) -> Reason:
    seconds = max(0, round(left))
    if not document.attempts:
        return Reason("not-before", {"seconds": seconds})
    if document.error is None and calls > 1:
        return Reason("later-again", {"seconds": seconds, "calls": calls})
    if document.error is None:
        return Reason("later", {"seconds": seconds})
    params = {"attempts": document.attempts, "error": document.error, "seconds": seconds}
    return Reason("retry", params)


def _why_quota(name: str, pipeline: PipelineState) -> list[Reason]:
    if pipeline.limit is not None:
        return [Reason("quota", {"pipeline": name, "limit": pipeline.limit})]
    if pipeline.running is not None:
        return [Reason("quota-running", {"pipeline": name, "running": pipeline.running})]
    return []


def _waited(customer: CustomerRecord, now: float) -> float | None:
    if customer.oldest_waiting_at is None:
        return None
    return now - waits_since(customer.last_started_at, customer.oldest_waiting_at)


def _why_not_waiting(document: Document) -> Reason:
    params: dict[str, Any] = {}
    if document.state is State.PROCESSING:
        params = {"attempts": document.attempts}
    if document.state is State.FAILED:
        params = {"error": document.error, "detail": document.detail}
    return Reason(document.state.value, params)


def duration(seconds: float, number: Callable[[float], str]) -> str:
    """A length of time in its largest fitting unit, such as 23 min."""
    for size, symbol in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{number(round(seconds / size))} {symbol}"
    if 0 < seconds < 1:
        return f"{number(max(1, round(1000 * seconds)))} ms"
    return f"{number(round(seconds))} s"


def _number(value: Any) -> str:
    """Numbers with thousands separators and a real minus sign; anything else as it is."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}".replace("-", "−") if isinstance(value, int | float) else str(value)
