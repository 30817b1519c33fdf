-- Counts the runs before a virtual start that are not too large.
-- Arguments: limit, virtual start. Reply: one row: how many.
SELECT (SELECT count(*) FROM limit_runs WHERE limit_id = ?1 AND state = 0 AND virtual_start < ?2)
    + (SELECT count(*) FROM limit_runs WHERE limit_id = ?1 AND state = 1 AND virtual_start < ?2)
