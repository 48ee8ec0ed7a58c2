-- New documents are tallied by whoever adds them: a batch of them at once, not each by itself.
DROP TRIGGER tally_new;
