-- Claims tasks for a session, the first that nobody else has. :chosen rows [seq, grace_s], best first, :most of them,
-- :session_id, :n, :now, :clock. Reply: rows.TASK, payload, seq; in no certain order.
-- By the clock of this moment: what ended here may have ended after this transaction began.
WITH chosen AS (
    SELECT t.ctid, c.grace_s
    FROM unnest(:chosen.0::bigint[], :chosen.1::float8[]) AS c (seq, grace_s)
    CROSS JOIN LATERAL (
        SELECT t.ctid
        FROM forebay_tasks AS t
        WHERE t.seq = c.seq AND coalesce(t.status = 'pending' AND t.tag IS NOT NULL, false)
        FOR UPDATE SKIP LOCKED
    ) AS t
    LIMIT :most
)
UPDATE forebay_tasks AS t
SET status = 'running',
    claim_count = t.claim_count + 1,
    session_id = :session_id,
    exchange_n = :n,
    claimed_at = :clock,
    attempt_deadline_at = :clock + t.timeout_s + chosen.grace_s,
    wait_reason = NULL
FROM chosen
WHERE t.ctid = chosen.ctid
RETURNING t.id, t.kind, t.lane, t.tenant, t.status, t.role, t.job_id, t.chunk_index, t.generation, t.priority,
          t.flow, t.tag, t.tags, t.idempotency_key, t.payload_hash, t.payload_blob, t.timeout_s, t.deadline_at,
          t.max_retries, t.max_reschedules, t.created_at, t.available_at, t.wait_reason, t.retry_count,
          t.reschedule_count, t.lost_count, t.claim_count, t.attempt_count, t.session_id, t.exchange_n,
          t.claimed_at, t.attempt_deadline_at, t.finished_at, t.cancel_requested_at, t.error_class, t.error_text,
          t.result_blob, t.payload, t.seq
