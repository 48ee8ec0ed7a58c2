-- New documents are tallied by whoever adds them.
DROP TRIGGER tally_new ON documents;
DROP FUNCTION tally_new;
