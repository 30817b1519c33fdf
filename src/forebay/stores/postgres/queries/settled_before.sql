-- Settles that were written before, so that a repeat is answered alike.
-- :asked rows [task id, token]. Reply: task id, token, outcome.
SELECT asked.id, asked.token, h.outcome
FROM unnest(:asked.0::text[], :asked.1::bigint[]) AS asked (id, token)
CROSS JOIN LATERAL (SELECT t.seq FROM forebay_tasks AS t WHERE t.id = asked.id OFFSET 0) AS t
CROSS JOIN LATERAL (
    SELECT h.outcome FROM forebay_history AS h
    WHERE h.task_seq = t.seq AND h.token = asked.token AND h.settled
    OFFSET 0
) AS h
