"""The line: customers in the order of their best waiting document."""

from __future__ import annotations

from fairlead.stores.sql.moment import Moment
from fairlead.stores.sql.queries import sql


def refresh(
    moment: Moment,
    customer: int,
    *,
    waiting: int = 0,
    processing: int = 0,
    started_at: float | None = None,
    work: float = 0.0,
) -> None:
    """Put the customer where it belongs, after anything of it changed.

    `waiting` and `processing` are what its numbers of documents change by; `started_at` is the
    time of a start, `work` are seconds of work done for it.
    """
    run = moment.connection.execute
    if waiting or processing or work:
        run(sql("count_for_account"), (customer, waiting, processing, work))
    run(sql("refresh_customer"), (customer, waiting, processing, started_at))
