-- Failed or canceled tasks of a tenant, newest first; a line whose argument is not given is left out. :status, :tenant, :kind, :role, :after a seq, :most.
-- Reply: rows.TASK, seq.
-- A seek for each pair of a kind and a role, of which there are few; then the newest of each pair.
WITH RECURSIVE groups (kind, role) AS (
    (
        SELECT t.kind, t.role || '' AS role
        FROM forebay_tasks AS t
        WHERE true
          AND t.kind >= :kind
        ORDER BY t.kind, t.role || ''
        LIMIT 1
    )
    UNION ALL
    SELECT following.kind, following.role
    FROM groups AS g
    CROSS JOIN LATERAL (
        SELECT t.kind, t.role || '' AS role
        FROM forebay_tasks AS t
        WHERE (t.kind, t.role || '') > (g.kind, g.role)
        ORDER BY t.kind, t.role || ''
        LIMIT 1
    ) AS following
    WHERE true
      AND g.kind = :kind
)
SELECT p.id, p.kind, p.lane, p.tenant, p.status, p.role, p.job_id, p.chunk_index, p.generation, p.priority, p.flow,
       p.tag, p.tags, p.idempotency_key, p.payload_hash, p.payload_blob, p.timeout_s, p.deadline_at, p.max_retries,
       p.max_reschedules, p.created_at, p.available_at, p.wait_reason, p.retry_count, p.reschedule_count,
       p.lost_count, p.claim_count, p.attempt_count, p.session_id, p.exchange_n, p.claimed_at,
       p.attempt_deadline_at, p.finished_at, p.cancel_requested_at, p.error_class, p.error_text, p.result_blob,
       p.requested_retry_count, p.page_start, p.page_end, own.seq
FROM (
    SELECT own.seq
    FROM groups AS g
    CROSS JOIN LATERAL (
        SELECT t.seq
        FROM forebay_tasks AS t
        WHERE t.dead = :status AND t.tenant = :tenant AND t.kind = g.kind AND t.role || '' = g.role
          AND t.seq / 1 < :after
        ORDER BY t.seq / 1 DESC
        LIMIT :most
    ) AS own
    WHERE true
      AND g.kind = :kind
      AND g.role = :role
    ORDER BY own.seq DESC
    LIMIT :most
) AS own
CROSS JOIN LATERAL (SELECT p.* FROM forebay_present AS p WHERE p.seq = own.seq OFFSET 0) AS p
ORDER BY own.seq DESC
