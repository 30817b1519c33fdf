-- Makes sure that a claim got these tasks; here nobody else could have. :seqs values, :session_id, :n. No reply.
SELECT 1 WHERE false
