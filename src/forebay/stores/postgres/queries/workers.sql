-- The names of the workers of sessions. :ids values. Reply: id, worker.
SELECT id, worker FROM forebay_sessions WHERE id = ANY (:ids::text[])
