-- Counts the runs from a virtual start on that are not too large.
-- Arguments: limit, virtual start, at most so many of each kind. Reply: one row: how many.
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM limit_runs WHERE limit_id = ?1 AND state = 0 AND virtual_start >= ?2 LIMIT ?3))
    + (SELECT count(*) FROM (
        SELECT 1 FROM limit_runs WHERE limit_id = ?1 AND state = 1 AND virtual_start >= ?2 LIMIT ?3))
