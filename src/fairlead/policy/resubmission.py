"""The priorities of recent documents, if their customers submitted the like again from now on.

Under classic a customer that keeps submitting sinks: the next documents like those that had a good
priority an hour ago may have a worse one. Others were idle since, and begin at count 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fairlead.model.customers import Counter
from fairlead.policy.classic import ClassicPolicy

BURST = 300.0
"""A customer whose documents came within so many seconds submitted once."""


class Submitter(NamedTuple):
    """The rule and the counter of a customer at this moment."""

    policy: ClassicPolicy
    counter: Counter | None


class Submitted(NamedTuple):
    """A recent document: when and by whom it was submitted, and its priority."""

    at: float
    customer: int
    priority: int


def priorities_again(
    submitted: Sequence[Submitted], submitters: Mapping[int, Submitter], now: float
) -> list[float]:
    """Their priorities at the same intervals from `now` on; `submitted` is oldest first.

    A customer that submitted only once lately keeps its priorities: as many others that nobody has
    seen yet will do as it did.
    """
    seen = defaultdict[int, list[float]](list)
    for document in submitted:
        seen[document.customer].append(document.at)
    counters = {customer: own.counter for customer, own in submitters.items()}
    priorities = []
    for at, customer, priority in submitted:
        if seen[customer][-1] - seen[customer][0] <= BURST:
            priorities.append(float(priority))
            continue
        again = now + at - submitted[0].at
        check = submitters[customer].policy.check(counters[customer], now=again)
        counters[customer] = check.counter
        priorities.append(float(check.priority))
    return priorities
