"""Which bytes a Range header asks for: RFC 9110, section 14."""

from __future__ import annotations

import re

MOST_RANGES = 100
_PREFIX = re.compile(r"bytes=", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]{0,100})-([0-9]{0,100})")


def asked_ranges(header: str, size: int) -> list[tuple[int, int]] | None:
    """Where each range begins and ends, sorted and without overlaps; none at all: outside.

    None: the header is to be ignored, for it has another unit, is wrong, or asks for too many.
    """
    unit = _PREFIX.match(header)
    if unit is None:
        return None
    terms = [each.strip(" \t") for each in header[unit.end() :].split(",")]
    asked = [_range(each, size) for each in terms if each]
    if not 0 < len(asked) <= MOST_RANGES or None in asked:
        return None
    return _merged(sorted(each for each in asked if each is not None and each[0] < each[1]))


def _range(term: str, size: int) -> tuple[int, int] | None:
    """One range, of which nothing is left where it lies outside; None: it is no range."""
    found = _RANGE.fullmatch(term)
    if found is None or term == "-":
        return None
    first, last = found.groups()
    if not first:
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
