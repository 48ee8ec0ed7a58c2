-- Documents that are short: a file for each would cost more than its row.
CREATE TABLE short_originals (
  document INTEGER PRIMARY KEY,
  content BLOB NOT NULL
) STRICT;
