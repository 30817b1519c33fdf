-- Tasks with a tag, newest first; a line whose argument is not given is left out. :status, :kind, :tenant, :role,
-- :tag, :after a seq, :most, :look. Reply: rows.TASK, seq.
-- Of the tasks with the tag :look at most are walked over. Where there are more, and too few were found, the last row has
-- no id, and its seq is where to go on.
WITH walked AS MATERIALIZED (
    SELECT own.seq
    FROM forebay_task_tags AS own
    WHERE own.tag = :tag
      AND own.seq < :after
    ORDER BY own.seq DESC
    LIMIT :look
), listed AS MATERIALIZED (
    SELECT own.seq
    FROM walked AS own
    CROSS JOIN LATERAL (
        SELECT p.status, p.kind, p.tenant, p.role FROM forebay_present AS p WHERE p.seq = own.seq OFFSET 0
    ) AS p
    WHERE true
      AND p.status = :status
      AND p.kind = :kind
      AND p.tenant = :tenant
      AND p.role = :role
    ORDER BY own.seq DESC
    LIMIT :most
)
SELECT p.id, p.kind, p.lane, p.tenant, p.status, p.role, p.job_id, p.chunk_index, p.generation, p.priority, p.flow,
       p.tag, p.tags, p.idempotency_key, p.payload_hash, p.payload_blob, p.timeout_s, p.deadline_at, p.max_retries,
       p.max_reschedules, p.created_at, p.available_at, p.wait_reason, p.retry_count, p.reschedule_count,
       p.lost_count, p.claim_count, p.attempt_count, p.session_id, p.exchange_n, p.claimed_at,
       p.attempt_deadline_at, p.finished_at, p.cancel_requested_at, p.error_class, p.error_text, p.result_blob,
       p.requested_retry_count, p.page_start, p.page_end, own.seq
FROM (
    SELECT seq, false AS ends FROM listed
    UNION ALL
    SELECT min(seq), true FROM walked HAVING count(*) = :look::bigint
) AS own
LEFT JOIN LATERAL (
    SELECT p.* FROM forebay_present AS p WHERE p.seq = own.seq AND NOT own.ends OFFSET 0
) AS p ON true
ORDER BY own.seq DESC, own.ends
