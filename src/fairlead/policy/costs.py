"""Estimates of processing time, learned from earlier documents.

Documents of one shape and similar length cost about the same. So learned costs have one bucket per
shape and doubling of length: in pages if the first bytes of a document state them, else in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead.model.documents import Sniff
from fairlead.model.pipelines import DEFAULT_PIPELINE

LEAST_SECONDS = 0.001
MEMORY = 50
"""About how many documents a bucket's mean covers."""
_FURTHEST = 6
"""Buckets more doublings away than this are not used."""

# Estimates until something is learned: seconds per document, and per page or kilobyte.
_INITIAL = {
    ("pdf", "pages"): (0.01, 0.01),
    ("pdf", "bytes"): (0.02, 0.0002),
    ("image", "bytes"): (1.0, 0.001),
}
_OTHERS_INITIAL = (0.01, 0.0001)


class CostBucket(NamedTuple):
    """Documents of one shape and similar length, in doublings of the unit `by`."""

    shape: str
    by: str
    doublings: int


class LearnedCosts(NamedTuple):
    """The mean seconds of work in a bucket, and over how many documents (at most `MEMORY`)."""

    documents: int
    seconds: float


def cost_bucket(sniff: Sniff, size: int, pipeline: str = DEFAULT_PIPELINE) -> CostBucket:
    """The bucket of a document; each pipeline has its own, because its steps differ."""
    shape = sniff.shape if pipeline == DEFAULT_PIPELINE else f"{pipeline}/{sniff.shape}"
    if sniff.pages is not None:
        return CostBucket(shape, "pages", sniff.pages.bit_length())
    return CostBucket(shape, "bytes", (size // 1024).bit_length())


def learn(before: LearnedCosts | None, seconds: float) -> LearnedCosts:
    """The costs after one more document: a moving mean."""
    previous = before or LearnedCosts(0, 0.0)
    documents = min(previous.documents + 1, MEMORY)
    return LearnedCosts(documents, previous.seconds + (seconds - previous.seconds) / documents)


def estimate(bucket: CostBucket, learned: Mapping[int, LearnedCosts]) -> float:
    """Seconds of work for a document of this bucket.

    `learned` are the costs of the same shape and unit, by doublings. The nearest bucket counts,
    scaled by length; if none is near, the initial estimate does.
    """
    own = bucket.doublings
    near = min(learned, key=lambda doublings: (abs(doublings - own), doublings), default=None)
    if near is None or abs(near - own) > _FURTHEST:
        shape = bucket.shape.rpartition("/")[2]
        base, per_unit = _INITIAL.get((shape, bucket.by), _OTHERS_INITIAL)
        return base + per_unit * 2.0**own
    return max(LEAST_SECONDS, learned[near].seconds * 2.0 ** (own - near))
