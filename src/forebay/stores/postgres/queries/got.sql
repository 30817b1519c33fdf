-- Makes sure that a claim got these tasks, whose jobs count them already. :seqs values, :session_id, :n. No reply.
-- If it did not, an error (a division by zero) takes back all of this transaction, and it is run again.
SELECT 1 / (count(*) = cardinality(:seqs::bigint[]))::integer
FROM unnest(:seqs::bigint[]) AS own (seq)
CROSS JOIN LATERAL (SELECT r.session_id, r.exchange_n FROM forebay_running AS r WHERE r.seq = own.seq OFFSET 0) AS r
WHERE r.session_id = :session_id AND r.exchange_n = :n
