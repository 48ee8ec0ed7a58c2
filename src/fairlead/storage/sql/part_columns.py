"""The columns of document `d` about its parts and about the documents around it.

Most documents cost one look into an index, those without a result none: only a result has parts.
"""

from __future__ import annotations

_FAMILY = "SELECT count(*) FROM documents p INDEXED BY family WHERE p.root = d.seq"
_PARTS_OF_PART = """
WITH RECURSIVE part (seq, state) AS (
  SELECT seq, state FROM documents WHERE parent = d.seq
  UNION ALL SELECT p.seq, p.state FROM part
  JOIN documents p ON p.parent BETWEEN part.seq AND part.seq)
SELECT count(*) FROM part"""
"""BETWEEN instead of =, so that PostgreSQL looks up each part instead of merging a whole index."""


def _count(family: str, parts_of_part: str) -> str:
    """The number of parts at all depths, of a document that is no part itself, and of another."""
    return (
        "CASE WHEN d.facts IS NULL THEN 0 "
        f"WHEN d.root IS NULL THEN ({family}) ELSE ({parts_of_part}) END"
    )


PARTS = _count(_FAMILY, _PARTS_OF_PART)
PARTS_DONE = _count(
    f"{_FAMILY} AND p.state <> 'waiting'", f"{_PARTS_OF_PART} WHERE state <> 'waiting'"
)
PARENT_NAMES = """
CASE WHEN d.parent IS NOT NULL THEN (
  WITH RECURSIVE around (parent, names) AS (
    SELECT o.parent, o.name FROM documents o WHERE o.seq = d.parent
    UNION ALL SELECT o.parent, o.name || '/' || around.names
    FROM around JOIN documents o ON o.seq = around.parent)
  SELECT names FROM around
  WHERE NOT EXISTS (SELECT 1 FROM documents o WHERE o.seq = around.parent)) END"""
"""Outermost first, with slashes between them: names have none."""
