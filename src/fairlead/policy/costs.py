"""What a document will cost, estimated before it is read, and learned from documents that were.

Documents of one shape and about one length cost about the same. So learned costs have one bucket
per shape and doubling of length: pages where the first bytes contain their number, else bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead.model.documents import Sniff
from fairlead.model.pipelines import DEFAULT_PIPELINE

LEAST_SECONDS = 0.001
MEMORY = 50
"""A bucket's mean is one over about so many documents."""
_FURTHEST = 6
"""Buckets further away than so many doublings say nothing."""

# Before anything was learned: seconds per document, and per page or kilobyte.
_INITIAL = {
    ("pdf", "pages"): (0.01, 0.01),
    ("pdf", "bytes"): (0.02, 0.0002),
    ("image", "bytes"): (1.0, 0.001),
}
_OTHERS_INITIAL = (0.01, 0.0001)


class CostBucket(NamedTuple):
    """Documents of one shape and about one length, in doublings of the unit `by`."""

    shape: str
    by: str
    doublings: int


class LearnedCosts(NamedTuple):
    """The mean seconds of work in a bucket, over how many documents (at most `MEMORY`)."""

    documents: int
    seconds: float


def cost_bucket(look: Sniff, size: int, pipeline: str = DEFAULT_PIPELINE) -> CostBucket:
    """The bucket of a document; each pipeline has its own, as its steps cost what they cost."""
    shape = look.shape if pipeline == DEFAULT_PIPELINE else f"{pipeline}/{look.shape}"
    if look.pages is not None:
        return CostBucket(shape, "pages", look.pages.bit_length())
    return CostBucket(shape, "bytes", (size // 1024).bit_length())


def learn(before: LearnedCosts | None, seconds: float) -> LearnedCosts:
    """The costs after one more document: a moving mean."""
    known = before or LearnedCosts(0, 0.0)
    documents = min(known.documents + 1, MEMORY)
    return LearnedCosts(documents, known.seconds + (seconds - known.seconds) / documents)


def estimate(bucket: CostBucket, known: Mapping[int, LearnedCosts]) -> float:
    """Seconds of work for a document of this bucket.

    `known` are the learned costs of the same shape and unit, by doublings. The nearest one counts,
    scaled by length; if none is near, the initial estimate does.
    """
    own = bucket.doublings
    near = min(known, key=lambda doublings: (abs(doublings - own), doublings), default=None)
    if near is None or abs(near - own) > _FURTHEST:
        shape = bucket.shape.rpartition("/")[2]
        base, per_unit = _INITIAL.get((shape, bucket.by), _OTHERS_INITIAL)
        return base + per_unit * 2.0**own
    return max(LEAST_SECONDS, known[near].seconds * 2.0 ** (own - near))
