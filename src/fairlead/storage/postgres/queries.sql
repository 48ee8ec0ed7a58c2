-- Shared statements that PostgreSQL would not plan well as they are.

-- name: first_in_line
SELECT
  first.id, first.head_rank, h.seq, h.slot_rank, h.slot_seq, j.seq, j.ahead, j.rank, j.slot_rank,
  j.slot_seq
FROM (
  SELECT id, head_rank FROM customers
  WHERE head_rank IS NOT NULL ORDER BY head_rank, head_seq LIMIT 1) AS first
  CROSS JOIN LATERAL (
    SELECT seq, slot_rank, slot_seq FROM documents
    WHERE customer = first.id AND queued = 1 ORDER BY slot_rank, slot_seq LIMIT 1) AS h
  LEFT JOIN LATERAL (
    SELECT seq, ahead, rank, slot_rank, slot_seq FROM documents
    WHERE customer = first.id AND ahead IS NOT NULL ORDER BY ahead, rank, seq LIMIT 1) AS j ON TRUE;
