"""Converts the times of documents to ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# D:20240131120000+01'00', of which everything after the year may be missing
_PDF = re.compile(
    r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\s*(?:(Z)|([+-]\d\d)'?(\d\d)?)?", re.ASCII
)


def iso(value: object) -> str | None:
    """Return the time in ISO 8601; None if the value is not a time."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if not isinstance(value, str):
        return None
    text = value.strip()[:64]
    return _from_pdf(text) if text.startswith("D:") else _from_iso(text)


def _from_iso(text: str) -> str | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return text if len(text) == 10 else time.isoformat(timespec="seconds")


def _from_pdf(text: str) -> str | None:
    match = _PDF.match(text)
    if not match:
        return None
    year, month, day, hour, minute, second, utc, hours, minutes = match.groups()
    zone = "+00:00" if utc else f"{hours}:{minutes or '00'}" if hours else ""
    date = f"{year}-{month or '01'}-{day or '01'}"
    return _from_iso(f"{date}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}")


def from_compact(text: str) -> str | None:
    """Convert a date of eight digits, as in invoices; an ISO date stays as it is."""
    try:
        date = datetime.strptime(text.strip()[:8], "%Y%m%d").replace(tzinfo=UTC)
    except ValueError:
        return _from_iso(text.strip()[:10])
    return date.date().isoformat()
