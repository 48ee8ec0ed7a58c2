-- Texts that are short: a file for each would cost more than reading the document.
CREATE TABLE short_texts (
  document INTEGER PRIMARY KEY,
  text BLOB NOT NULL,
  markdown BLOB
) STRICT;
