"""The priorities of recent documents, submitted again."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.model.customers import Counter
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.resubmission import Submitted, Submitter, priorities_again

RULE = ClassicPolicy()
ACME, GLOBEX = 1, 2
NOW = 10_000.0


def again(documents: Sequence[tuple[float, int]], now: float = NOW) -> list[float]:
    """The priorities of documents that customers submitted so many seconds before now, in order."""
    counters: dict[int, Counter] = {}
    submitted = []
    for ago, customer in documents:
        check = RULE.check(counters.get(customer), now=NOW - ago)
        counters[customer] = check.counter
        submitted.append(Submitted(NOW - ago, customer, check.priority))
    submitters = {customer: Submitter(RULE, counter) for customer, counter in counters.items()}
    return priorities_again(submitted, submitters, now)


def test_a_customer_that_keeps_submitting_sinks_further() -> None:
    """Regression: the good priorities of its first documents were expected again."""
    assert again([(3000.0 - 100 * number, ACME) for number in range(30)]) == [9.0] * 30


def test_a_customer_that_was_idle_long_enough_begins_anew() -> None:
    submitted = [(3600.0, ACME), (3000.0, ACME), *[(2900.0, ACME)] * 3, (0.0, GLOBEX)]
    assert again(submitted)[:5] == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_one_burst_counts_as_it_came() -> None:
    """In a young installation it would not be reset, but others that are new may follow."""
    assert again([(200.0, ACME)] * 5) == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_each_customer_has_its_own_rule_and_counter() -> None:
    strict = Submitter(ClassicPolicy(thresholds=(0, -50)), Counter(-7, NOW))
    usual = Submitter(RULE, Counter(-7, NOW))
    submitted = [Submitted(at, customer, 1) for at in (0.0, 400.0) for customer in (ACME, GLOBEX)]
    priorities = priorities_again(submitted, {ACME: strict, GLOBEX: usual}, NOW)
    assert priorities == [2.0, 4.0, 2.0, 5.0]


def test_nothing_comes_of_nothing() -> None:
    assert priorities_again([], {}, NOW) == []
