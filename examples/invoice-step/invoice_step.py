"""A step that finds the number and the total of an invoice in its text."""

from __future__ import annotations

import re

from fairlead import Job, Refuse, Result, step

_NUMBER = re.compile(r"\binvoice\s+(?:no\.?|number)?\s*:?\s*([A-Z0-9-]*\d)", re.IGNORECASE)
_TOTAL = re.compile(r"\btotal\s*:?\s*([A-Z]{3})?\s*([\d,]+\.\d{2})\b", re.IGNORECASE)


@step(attempts=2, timeout=30, concurrency=4)
def fields(job: Job) -> Result:
    """Find the fields; an invoice without a total is refused, and its customer reads why."""
    total = _TOTAL.search(job.text)
    if total is None:
        raise Refuse("no-total", "No total was found on this invoice.")
    number = _NUMBER.search(job.text)
    return Result(
        data={
            "number": number and number[1],
            "currency": total[1] or "EUR",
            "total": total[2].replace(",", ""),
        }
    )
