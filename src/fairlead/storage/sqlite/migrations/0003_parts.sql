-- Attachments and members of archives are documents of their own, linked to where they come from;
-- a result may have Markdown beside its text; a document may come with its password.

ALTER TABLE documents ADD COLUMN parent INTEGER;               -- seq of the document it was in
ALTER TABLE documents ADD COLUMN root INTEGER;                 -- seq of the one that was submitted
ALTER TABLE documents ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
ALTER TABLE documents ADD COLUMN markdown_key TEXT;
ALTER TABLE documents ADD COLUMN markdown_sha256 TEXT;
ALTER TABLE documents ADD COLUMN password TEXT;                -- until the document has ended

CREATE INDEX parts ON documents (parent) WHERE parent IS NOT NULL;
CREATE INDEX family ON documents (root) WHERE root IS NOT NULL;
