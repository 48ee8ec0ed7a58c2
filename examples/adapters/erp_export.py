"""A step that books an invoice in an ERP: the last step, after one that found the fields.

Copy it and replace `book`, which here writes a CSV file for an import job. A step runs at least
once for each document, so booking must be idempotent: the name of the file is the document's id,
and the file appears whole or not at all.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

from fairlead import Job, Refuse, step

COLUMNS = ("document", "customer", "order", "number", "currency", "total")


@step(attempts=10, timeout=60)
def export(job: Job) -> dict[str, str]:
    """Book the fields that an earlier step found in `job.data`."""
    missing = [name for name in ("number", "total") if not job.data.get(name)]
    if missing:
        raise Refuse("incomplete", f"This invoice cannot be booked without: {', '.join(missing)}.")
    row = {"document": job.id, "customer": job.customer, "order": job.metadata.get("order", "")}
    row |= {name: job.data.get(name, "") for name in COLUMNS[3:]}
    return {"booked_as": book(row)}


def book(row: dict[str, str]) -> str:
    """Write one booking to the folder from which the ERP imports; return its name."""
    folder = Path(os.environ["ERP_FOLDER"])
    target = folder / f"{row['document']}.csv"
    temporary = target.with_suffix(".tmp")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerow(row)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(target)  # a second run replaces the same file
    return target.name
