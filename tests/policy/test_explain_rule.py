"""Why a document has its place, in words: both policies, all states."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.i18n import translator
from fairlead.model.customers import Counter, CustomerRecord, CustomerSettings, Standing
from fairlead.model.documents import Document
from fairlead.model.explanations import CustomerAhead, Explanation, QueuePlace
from fairlead.model.json import from_json
from fairlead.model.states import State
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.explain import PHRASES, WORDS, explain, with_words, words
from fairlead.policy.fair import FairRule
from fairlead.policy.forecast import Flow, Outlook, QueuedBefore, RecentArrival
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.service import Hold
from fairlead.policy.serving import Serving, SharedPlaces

NOW = 1_800_000_000.0
QUEUE = "default"
FLOW = Flow(
    Serving((SharedPlaces(2, frozenset([QUEUE])),)),
    (
        *(Hold(QUEUE, 6.0, 0.0, None),) * 2,
        *(Hold(QUEUE, 6.0, -6.0 * age - 6.0, -6.0 * age) for age in range(100)),
    ),
)


def outlook(place: QueuePlace, flow: Flow = FLOW) -> Outlook:
    before = (QueuedBefore(2, QUEUE, 6.0),) * (place.position - 1)
    return Outlook(place, QueuedBefore(1, QUEUE, 6.0), before[:1000], flow)


def document(**changes: Any) -> Document:
    usual = from_json(
        Document,
        """{"id": "01m7gnankk8v2x4c6b0d9f1h3j", "customer": "acme", "name": "invoice.pdf",
        "size": 18231, "sha256": "", "kind": null, "state": "waiting", "priority": 1, "count": 0,
        "policy": "fair/2", "urgent": false, "submitted_at": "2026-01-31T12:00:00Z",
        "estimate": 6.0}""",
    )
    fields = {name: getattr(usual, name) for name in usual.__struct_fields__}
    return Document(**(fields | {"submitted_at": NOW - 10} | changes))


def customer(standing: Standing | None = None, **changes: Any) -> CustomerRecord:
    usual: dict[str, Any] = {
        "name": "acme",
        "created_at": NOW - 1000,
        "counter": Counter(-4, NOW - 100),
        "paused": False,
        "settings": CustomerSettings(),
        "waiting": 3,
        "processing": 0,
        "last_started_at": NOW - 5,
        "oldest_waiting_at": NOW - 10,
        "standing": standing,
    }
    return CustomerRecord(**(usual | changes))


def stands(had_lately: float = 0.0, **changes: Any) -> Standing:
    usual: dict[str, Any] = {
        "count": 0, "had_lately": had_lately, "is_beyond": False, "fades_at": NOW + 480,
    }  # fmt: skip
    return Standing(**(usual | changes))


def fair(
    standing: Standing, place: QueuePlace | None = None, own: CustomerSettings | None = None
) -> list[str]:
    record = customer(standing, settings=own or CustomerSettings())
    return [words(reason) for reason in fair_explanation(record, place).reasons]


def fair_explanation(record: CustomerRecord, place: QueuePlace | None) -> Explanation:
    usual = QueuePlace(0, 5, 3, 30.0)
    return explain(
        document(),
        record,
        outlook(usual if place is None else place),
        policy=FairRule(),
        lane=OverdueLane(),
        now=NOW,
    )


def test_within_the_allowance_those_who_have_had_less_go_first() -> None:
    assert fair(stands(85.0, accounts_before=3)) == [
        "at its submission, its customer had less than one document's worth of work done lately "
        "or waiting: count 0, priority 1",
        "before it: 0 documents of the same customer, 5 documents of others (3 customers)",
        "estimated processing time 6 s, weight 1",
        "its customer has had 14 documents' worth of work lately; 3 customers have had less or "
        "waited longer, and go first",
        "this fades: in 8 min it would be first",
    ]


@pytest.mark.parametrize(
    ("had", "before", "sentence"),
    [
        (6.0, 1, "1 document's worth of work lately; 1 customer has had less or waited longer"),
        (6.0, 0, "has had 1 document's worth of work lately; none that waits has had less"),
        (5.9, 2, "less than one document's worth of work lately; 2 customers have had less"),
        (0.0, 0, "less than one document's worth of work lately; none that waits has had less"),
    ],
)
def test_how_much_one_has_had(had: float, before: int, sentence: str) -> None:
    assert sentence in fair(stands(had, accounts_before=before))[3]


def test_beyond_the_allowance_it_shares_with_the_others_there() -> None:
    standing = stands(260.0, is_beyond=True, accounts_before=4, accounts_beyond=2)
    assert fair(standing)[3:] == [
        "beyond its allowance its customer shares equally with 2 other customers; "
        "5 documents of others start before it",
        "the work its customer has had lately fades: in 8 min it counts as nothing if nothing "
        "more starts",
    ]
    one = fair(stands(260.0, is_beyond=True, accounts_beyond=1), QueuePlace(2, 1, 1))
    assert "with 1 other customer; 1 document of others starts before it" in one[3]
    alone = fair(stands(260.0, is_beyond=True))
    assert alone[3] == "its customer is beyond its allowance: customers within theirs go first"


def test_what_was_not_counted_one_by_one_is_told_as_about() -> None:
    place = QueuePlace(1, 12_000, 40, 72_000.0, is_estimate=True)
    standing = stands(260.0, is_beyond=True, accounts_beyond=2)
    sentences = fair(standing, place)
    assert sentences[1] == (
        "before it, about: 1 document of the same customer, 12,000 documents of others "
        "(40 customers)"
    )
    assert sentences[3] == "beyond its allowance its customer shares equally with 2 other customers"
    shown = fair_explanation(customer(standing), place).ahead
    assert shown is not None
    assert shown.is_estimate


def test_inside_a_shared_account_the_account_is_named() -> None:
    sentences = fair(stands(12.0, accounts_before=1), own=CustomerSettings(account="group"))
    assert sentences[3].startswith("its customer shares the account group: ")


def test_who_has_had_nothing_and_waits_for_nothing_starts_over() -> None:
    record = customer(stands(), waiting=0, oldest_waiting_at=None)
    running = document(state=State.PROCESSING)
    explanation = explain(running, record, None, policy=FairRule(), lane=None, now=NOW)
    assert [reason.code for reason in explanation.reasons] == [
        *("no-work-before", "processing", "costs", "reset-due"),
    ]


@pytest.mark.parametrize("policy", [FairRule(), ClassicPolicy()], ids=["fair", "classic"])
@pytest.mark.parametrize("state", [State.DONE, State.FAILED, State.CANCELLED])
def test_an_ended_document_is_not_told_what_its_customer_has_had_since(
    policy: FairRule | ClassicPolicy, state: State
) -> None:
    ended = document(state=state, error="damaged", detail="it is damaged")
    record = customer(stands(12.0, count=-2))
    explanation = explain(ended, record, None, policy=policy, lane=None, now=NOW)
    assert [reason.code for reason in explanation.reasons[1:]] == [state.value]


def test_the_count_is_told_in_documents_worth() -> None:
    record = customer(stands(12.0, count=-2))
    explanation = explain(
        document(count=-9, priority=5, state=State.PROCESSING),
        *(record, None),
        policy=FairRule(),
        lane=None,
        now=NOW,
    )
    assert words(explanation.reasons[0]) == (
        "at its submission, its customer had 9 documents' worth of work done lately or waiting: "
        "count −9, priority 5"
    )
    assert explanation.reasons[-1].code == "fades-later"


def test_a_document_of_another_policy_is_told_by_its_count() -> None:
    record = customer(stands(12.0, count=-2))
    old = document(policy="classic/1", count=-9, priority=5, state=State.DONE)
    explanation = explain(old, record, None, policy=FairRule(), lane=None, now=NOW)
    assert words(explanation.reasons[0]) == "count −9 is below −8: priority 5"


def test_classic_is_told_as_before() -> None:
    explanation = explain(
        document(policy="classic/1", count=-9, priority=5, urgent=True),
        customer(),
        outlook(QueuePlace(1, 2, 1, 18.0, most=(CustomerAhead("brine", 2),))),
        policy=ClassicPolicy(),
        lane=OverdueLane(after=4.0),
        now=NOW,
    )
    assert [words(reason) for reason in explanation.reasons] == [
        "count −9 is below −8: priority 5",
        "urgent: it goes before the other documents of its customer",
        "its customer has waited 5 s for a start and is overdue: it may go first",
        "before it: 1 document of the same customer, 2 documents of others (1 customer)",
        "resets in 23 min if no other document arrives",
    ]
    assert explanation.position == 4
    wait = explanation.forecast
    assert wait is not None
    assert NOW <= wait.low <= wait.expected <= wait.high


@pytest.mark.parametrize("policy", [ClassicPolicy(), FairRule()])
def test_a_paused_customer_has_no_forecast(policy: ClassicPolicy | FairRule) -> None:
    standing = stands() if isinstance(policy, FairRule) else None
    explanation = explain(
        document(), customer(standing, paused=True), None, policy=policy, lane=None, now=NOW
    )
    assert "paused" in [reason.code for reason in explanation.reasons]
    assert explanation.forecast is None
    assert explanation.position is None


def test_who_has_had_less_is_expected_earlier_when_others_keep_arriving() -> None:
    """Under fair, arrivals go before a document only if their customers have had less lately."""
    newcomers = tuple(RecentArrival(float(age), 0.0, 6.0, 3, QUEUE) for age in range(0, 3600, 6))
    busy = Flow(FLOW.serving, FLOW.holds, newcomers)

    def expected(had: float) -> float:
        explanation = explain(
            *(document(), customer(stands(had)), outlook(QueuePlace(0, 20, 3, 120.0), busy)),
            policy=FairRule(),
            lane=None,
            now=NOW,
        ).forecast
        assert explanation is not None
        return explanation.expected - NOW

    assert expected(0.0) < 0.9 * expected(120.0)


def test_only_operators_see_who_is_before() -> None:
    place = QueuePlace(0, 5, 1, 30.0, most=(CustomerAhead("brine", 5),))
    explanation = fair_explanation(customer(stands(12.0)), place)
    shown = with_words(explanation, translator("de").reason, with_others=False)
    assert shown.ahead is not None
    assert not shown.ahead.most
    assert all(reason.words for reason in shown.reasons)


def test_no_reason_speaks_of_tags_or_a_clock() -> None:
    texts = [*WORDS.values(), *(text for phrase in PHRASES.values() for text in phrase[1:])]
    assert [text for text in texts if "clock" in text or "tag" in text.split()] == []


@pytest.mark.parametrize(
    ("calls", "code"), [(1, "later"), (2, "later-again"), (4_000, "later-again")]
)
def test_a_step_that_asks_again_and_again_is_told(calls: int, code: str) -> None:
    explanation = explain(
        document(attempts=calls),
        customer(),
        None,
        policy=ClassicPolicy(),
        lane=None,
        now=NOW,
        retry_at=NOW + 60,
        calls=calls,
    )
    assert code in [reason.code for reason in explanation.reasons]
    if calls > 1:
        assert f"asked {calls:,} times" in words(explanation.reasons[1])
