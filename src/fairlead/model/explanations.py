"""Explanations as they are shown: why a document has its place, and when it may start."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType, field

from fairlead.model.json import Record, Time
from fairlead.model.pipelines import DEFAULT_PIPELINE


class Reason(Record, frozen=True):
    """One reason: a stable code, the numbers and names that belong to it, and words."""

    code: str
    params: dict[str, Any] = field(default_factory=dict)
    words: str = ""


class CustomerAhead(Record, frozen=True):
    """Another customer with documents that go before."""

    customer: str
    documents: int


class Place(Record, frozen=True):
    """What goes before a waiting document; `most` are the others with most documents in it.

    `is_estimate`: so many go before that they were not counted one by one. Only operators are shown
    `most`.
    """

    own_documents: int
    other_documents: int
    other_customers: int
    seconds: float
    most: tuple[CustomerAhead, ...] | UnsetType = UNSET
    is_estimate: bool = False


class PipelineState(NamedTuple):
    """What may hold back the documents of a pipeline.

    `limit` is its rate, such as 15/s, where no document may start now because of it; `running` is
    how many are processed, where no more may be. `is_served`: a running worker serves it. `queue`
    is that of the steps for which the document waits. Of its quota, `rate` is starts a second, of
    which `tokens` may be at once, and `max_running` how many may be processed at once.
    """

    is_served: bool = True
    limit: str | None = None
    running: int | None = None
    queue: str = DEFAULT_PIPELINE
    rate: float | None = None
    tokens: float = 0.0
    max_running: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether its quota lets no document start now."""
        return self.limit is not None or self.running is not None

    def opens_in(self, documents: int) -> float:
        """In how many seconds its rate allows a start behind so many others of it."""
        if self.rate is None:
            return 0.0
        return max(0.0, documents + 1 - self.tokens) / self.rate


class QueuePlace(NamedTuple):
    """As `Place`, with what the rules need.

    `seconds` is the estimated work of all that goes before, `own_seconds` the part of it that is
    its own customer's. Of `pipeline_documents`, with `pipeline_seconds` of work, the quota of its
    own pipeline decides. `is_estimate`: so many go before that they were not counted one by one.
    """

    own_documents: int
    other_documents: int
    other_customers: int
    seconds: float = 0.0
    own_seconds: float = 0.0
    pipeline_documents: int = 0
    pipeline_seconds: float = 0.0
    most: tuple[CustomerAhead, ...] = ()
    is_estimate: bool = False

    @property
    def position(self) -> int:
        """1 for the next one."""
        return self.own_documents + self.other_documents + 1

    def shown(self) -> Place:
        """The place as operators see it."""
        numbers = (self.own_documents, self.other_documents, self.other_customers)
        return Place(*numbers, round(self.seconds, 3), self.most, self.is_estimate)


class Forecast(Record, frozen=True):
    """When a start is expected, and the range in which four of five starts should lie."""

    expected: Time
    low: Time
    high: Time


class Explanation(Record, frozen=True):
    """Everything there is to say about one document's place.

    `id` is the document's, `position` 1 for the next one; null: it is not in the queue. Without a
    forecast it does not wait, or nobody can tell.
    """

    id: str
    reasons: tuple[Reason, ...]
    position: int | None
    ahead: Place | None
    forecast: Forecast | None = None
