-- Completed tasks of a tenant, newest first; a line whose argument is not given is left out. :tenant, :kind, :role, :after a seq, :most, :look.
-- Reply: rows.TASK, seq.
-- Two walks side by side, each over :look rows at most: the attempts that ended, and the tasks
-- that the other filters choose. What either of them passes is known; the one that comes further decides how far the
-- page goes. Where neither comes to its end, the last row has no id, and its seq is where to go on.
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
), tried AS MATERIALIZED (
    SELECT h.task_seq AS seq, h.token, h.outcome
    FROM forebay_history AS h
    WHERE true
      AND h.task_seq < :after
    ORDER BY h.task_seq DESC, h.token DESC
    LIMIT :look
), lows AS MATERIALIZED (
    SELECT CASE WHEN count(*) < :look::bigint THEN 0 ELSE min(seq) END AS low FROM tried
), listed AS MATERIALIZED (
    -- Only the last attempt of a task has its claim count.
    SELECT own.seq
    FROM tried AS own
    CROSS JOIN LATERAL (
        SELECT t.status, t.claim_count, t.tenant, t.kind, t.role FROM forebay_tasks AS t WHERE t.seq = own.seq OFFSET 0
    ) AS t
    WHERE own.outcome = 'completed' AND t.claim_count = own.token AND t.status = 'completed'
      AND t.tenant = :tenant
      AND t.kind = :kind
      AND t.role = :role
), turns AS MATERIALIZED (
    SELECT greatest(:most::bigint, :look::bigint / greatest(1, count(*))) AS look
    FROM groups
    WHERE true
      AND kind = :kind
      AND role = :role
), walked AS MATERIALIZED (
    SELECT g.kind, g.role, own.seq, own.status = 'completed' AND NOT EXISTS (
        SELECT 1 FROM forebay_running AS r WHERE r.seq = own.seq
    ) AS matches
    FROM groups AS g
    CROSS JOIN LATERAL (
        SELECT t.seq, t.status
        FROM forebay_tasks AS t
        WHERE t.tenant = :tenant AND t.kind = g.kind AND t.role || '' = g.role
          AND t.seq - 0 < :after
        ORDER BY t.seq - 0 DESC
        LIMIT (SELECT look FROM turns)
    ) AS own
    WHERE true
      AND g.kind = :kind
      AND g.role = :role
), reach AS MATERIALIZED (
    SELECT least(
        (SELECT max(low) FROM lows),
        coalesce((
            SELECT max(low)
            FROM (
                SELECT CASE WHEN count(*) < (SELECT look FROM turns) THEN 0 ELSE min(seq) END AS low
                FROM walked
                GROUP BY kind, role
            ) AS each
        ), 0)
    ) AS seq
)
SELECT p.id, p.kind, p.lane, p.tenant, p.status, p.role, p.job_id, p.chunk_index, p.generation, p.priority, p.flow,
       p.tag, p.tags, p.idempotency_key, p.payload_hash, p.payload_blob, p.timeout_s, p.deadline_at, p.max_retries,
       p.max_reschedules, p.created_at, p.available_at, p.wait_reason, p.retry_count, p.reschedule_count,
       p.lost_count, p.claim_count, p.attempt_count, p.session_id, p.exchange_n, p.claimed_at,
       p.attempt_deadline_at, p.finished_at, p.cancel_requested_at, p.error_class, p.error_text, p.result_blob,
       p.requested_retry_count, p.page_start, p.page_end, own.seq
FROM (
    (
        SELECT f.seq, false AS ends
        FROM (SELECT seq FROM listed UNION SELECT seq FROM walked WHERE matches) AS f
        WHERE f.seq >= (SELECT seq FROM reach)
        ORDER BY f.seq DESC
        LIMIT :most
    )
    UNION ALL
    SELECT seq, true FROM reach WHERE seq > 0
) AS own
LEFT JOIN LATERAL (
    SELECT p.* FROM forebay_present AS p WHERE p.seq = own.seq AND NOT own.ends OFFSET 0
) AS p ON true
ORDER BY own.seq DESC, own.ends
