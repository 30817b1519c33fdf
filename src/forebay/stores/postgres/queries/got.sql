-- Makes sure that a claim got these tasks, whose jobs count them already. :seqs values, :session_id, :n. No reply.
-- If it did not, an error (a division by zero) takes back all of this transaction, and it is run again.
SELECT 1 / (count(*) = cardinality(:seqs::bigint[]))::integer
FROM unnest(:seqs::bigint[]) AS own (seq)
CROSS JOIN LATERAL (SELECT t.session_id, t.exchange_n FROM forebay_tasks AS t WHERE t.seq = own.seq OFFSET 0) AS t
WHERE t.session_id = :session_id AND t.exchange_n = :n
