"""Bytes a day: what certainly exceeds them is refused before it is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fairlead.model.documents import Document
from fairlead.policy.refusals import daily_bytes

_DAY = 86_400
_SLACK = 600
"""Seconds before midnight when nothing is certain: the store may have a clock of its own."""


class Daily:
    """Knows how much customers have sent today at the least: what this server accepted of them.

    The store knows all of it, and decides. This costs no question, and only spares reading what
    the store would refuse.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._day = 0
        self._sent: dict[str, int] = {}

    def check(self, customer: str, limit: int, coming: int) -> None:
        """Refuse where so many bytes, which are coming at the least, exceed the limit."""
        self._begin_day()
        is_nearly_over = self._clock() % _DAY >= _DAY - _SLACK
        sent = 0 if is_nearly_over else self._sent.get(customer, 0)
        if sent + coming > limit:
            raise daily_bytes(customer, limit, coming)

    def add(self, accepted: Sequence[Document]) -> None:
        """Keep in mind what came today, by the store's clock."""
        self._begin_day()
        for each in accepted:
            if each.submitted_at // _DAY == self._day:
                self._sent[each.customer] = self._sent.get(each.customer, 0) + each.size

    def _begin_day(self) -> None:
        today = int(self._clock() // _DAY)
        if today != self._day:
            self._day, self._sent = today, {}
