-- Retries that people asked for, counted apart from the task's own; and the pages of a chunk.
ALTER TABLE tasks ADD COLUMN requested_retry_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN page_start INTEGER;
ALTER TABLE tasks ADD COLUMN page_end INTEGER;
