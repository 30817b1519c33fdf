-- Claims the first tasks of a line that nobody else has, unless it is paused. :kind, :lane, :most, :grace_s, :session_id,
-- :n, :clock. Reply: rows.TASK, payload, seq; in no certain order.
-- One of a job, which would have to be locked before it, is an error (a division by zero) that takes back all of it.
WITH head AS (
    SELECT r.ctid AS place
    FROM forebay_ready AS r
    WHERE r.kind = :kind AND r.lane = :lane
      AND NOT EXISTS (SELECT 1 FROM forebay_pauses AS p WHERE p.lane = :lane AND (p.until IS NULL OR p.until > :clock))
    ORDER BY r.priority DESC, r.tag, r.available_at, r.seq + 0
    LIMIT :most
    FOR UPDATE OF r SKIP LOCKED
), taken AS (
    DELETE FROM forebay_ready AS r
    USING head AS h
    WHERE r.ctid = h.place
    RETURNING r.seq / (r.job_id IS NULL)::integer AS seq
), claimed AS (
    SELECT t.id, t.kind, t.lane, t.tenant, 'running' AS status, t.role, t.job_id, t.chunk_index, t.generation,
           t.priority, t.flow, t.tag, t.tags, t.idempotency_key, t.payload_hash, t.payload_blob, t.timeout_s,
           t.deadline_at, t.max_retries, t.max_reschedules, t.created_at, t.available_at, NULL::text AS wait_reason,
           t.retry_count, t.reschedule_count, t.lost_count, t.claim_count + 1 AS claim_count, t.attempt_count,
           :session_id::text AS session_id, :n::bigint AS exchange_n, k.claimed_at,
           k.claimed_at + t.timeout_s + k.grace_s AS attempt_deadline_at, t.finished_at, t.cancel_requested_at,
           t.error_class, t.error_text, t.result_blob,
           t.requested_retry_count, t.page_start, t.page_end, t.payload, t.seq
    FROM taken
    CROSS JOIN (SELECT :clock AS claimed_at, :grace_s::float8 AS grace_s OFFSET 0) AS k
    CROSS JOIN LATERAL (SELECT t.* FROM forebay_tasks AS t WHERE t.seq = taken.seq OFFSET 0) AS t
), held AS (
    INSERT INTO forebay_running
    SELECT seq, claim_count, session_id, exchange_n, claimed_at, attempt_deadline_at FROM claimed
)
SELECT * FROM claimed
