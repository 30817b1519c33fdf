-- Claims tasks for a session, the first that nobody else has. :chosen rows [seq, grace_s], best first, :most of them,
-- :session_id, :n, :now, :clock. Reply: rows.TASK, payload, seq; in no certain order.
-- By the clock of this moment: what ended here may have ended after this transaction began.
WITH chosen AS (
    SELECT r.place, c.grace_s
    FROM unnest(:chosen.0::bigint[], :chosen.1::float8[]) AS c (seq, grace_s)
    CROSS JOIN LATERAL (
        SELECT r.ctid AS place FROM forebay_ready AS r WHERE r.seq = c.seq FOR UPDATE SKIP LOCKED
    ) AS r
    LIMIT :most
), taken AS (
    DELETE FROM forebay_ready AS r USING chosen AS c WHERE r.ctid = c.place RETURNING r.seq, c.grace_s
), claimed AS (
    SELECT t.id, t.kind, t.lane, t.tenant, 'running' AS status, t.role, t.job_id, t.chunk_index, t.generation,
           t.priority, t.flow, t.tag, t.tags, t.idempotency_key, t.payload_hash, t.payload_blob, t.timeout_s,
           t.deadline_at, t.max_retries, t.max_reschedules, t.created_at, t.available_at, NULL::text AS wait_reason,
           t.retry_count, t.reschedule_count, t.lost_count, t.claim_count + 1 AS claim_count, t.attempt_count,
           :session_id::text AS session_id, :n::bigint AS exchange_n, k.claimed_at,
           k.claimed_at + t.timeout_s + taken.grace_s AS attempt_deadline_at, t.finished_at, t.cancel_requested_at,
           t.error_class, t.error_text, t.result_blob,
           t.requested_retry_count, t.page_start, t.page_end, t.payload, t.seq
    FROM taken
    CROSS JOIN (SELECT :clock AS claimed_at OFFSET 0) AS k
    CROSS JOIN LATERAL (SELECT t.* FROM forebay_tasks AS t WHERE t.seq = taken.seq OFFSET 0) AS t
), held AS (
    INSERT INTO forebay_running
    SELECT seq, claim_count, session_id, exchange_n, claimed_at, attempt_deadline_at FROM claimed
)
SELECT * FROM claimed
