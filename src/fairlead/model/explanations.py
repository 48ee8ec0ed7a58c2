"""Explanations: why a document has its place, and when it is expected to start."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType, field

from fairlead.model.json import Record, Time, rfc3339
from fairlead.model.notebook import list_html
from fairlead.model.pipelines import DEFAULT_PIPELINE


class Reason(Record, frozen=True):
    """One reason: a stable code, its numbers and names, and the sentence."""

    code: str
    params: dict[str, Any] = field(default_factory=dict)
    words: str = ""


class CustomerAhead(Record, frozen=True):
    """Another customer with documents that go first."""

    customer: str
    documents: int


class Place(Record, frozen=True):
    """The documents that go before a waiting one; `most` are the customers with most of them.

    `is_estimate`: there are too many to count one by one. Only operators see `most`.
    """

    own_documents: int
    other_documents: int
    other_customers: int
    seconds: float
    most: tuple[CustomerAhead, ...] | UnsetType = UNSET
    is_estimate: bool = False


class PipelineState(NamedTuple):
    """Why documents of a pipeline may have to wait.

    `limit` is its rate, such as 15/s, if it prevents a start now; `running` is the number of
    documents being processed, if that is the most. `is_served`: a running worker serves it. `queue`
    is that of the steps for which the document waits. `problem` is why one of its steps cannot run.
    """

    is_served: bool = True
    limit: str | None = None
    running: int | None = None
    queue: str = DEFAULT_PIPELINE
    problem: str | None = None

    @property
    def is_held(self) -> bool:
        """Whether its quota lets no document start now."""
        return self.limit is not None or self.running is not None


class QueuePlace(NamedTuple):
    """As `Place`, with the numbers that the rules need.

    `seconds` is the estimated work of all documents that go first, `own_seconds` the part of its
    own customer.
    `is_estimate`: there are too many to count one by one.
    """

    own_documents: int
    other_documents: int
    other_customers: int
    seconds: float = 0.0
    own_seconds: float = 0.0
    most: tuple[CustomerAhead, ...] = ()
    is_estimate: bool = False

    @property
    def position(self) -> int:
        """1 for the next one."""
        return self.own_documents + self.other_documents + 1

    def to_place(self) -> Place:
        """The place with the fields of its JSON, as operators see it."""
        numbers = (self.own_documents, self.other_documents, self.other_customers)
        return Place(*numbers, round(self.seconds, 3), self.most, self.is_estimate)


class Forecast(Record, frozen=True):
    """When a start is expected, and the range that contains four of five starts."""

    expected: Time
    low: Time
    high: Time


class Explanation(Record, frozen=True):
    """Why a document has its place.

    `id` is the document's. `position` is 1 for the next document, and null outside the queue. The
    forecast is null if the document does not wait, or none is possible.
    """

    id: str
    reasons: tuple[Reason, ...]
    position: int | None
    ahead: Place | None
    forecast: Forecast | None = None

    def __repr__(self) -> str:
        codes = ", ".join(reason.code for reason in self.reasons)
        return f"<Explanation of {self.id}: {self._start_words()}{codes}>"

    def _start_words(self) -> str:
        words = "" if self.position is None else f"position {self.position:,}; "
        if self.forecast is not None:
            words += f"start expected at {rfc3339(self.forecast.expected)}; "
        return words

    def _repr_html_(self) -> str:
        title = f"Explanation of {self.id} {self._start_words()}".rstrip("; ")
        return list_html(title, (reason.words or reason.code for reason in self.reasons))
