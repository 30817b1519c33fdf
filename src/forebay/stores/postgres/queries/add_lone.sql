-- Adds a lone task that is due at once; its tag is the one that rules.fairness.tags gives it: behind the last of its flow,
-- or behind the head of the line where none of its flow stands. :id, :kind, :lane, :tenant, :priority, :flow, :beyond all
-- flows of its tenant, of which :flow is the first, or NULL where it shares its turn with none, :most flows to count,
-- :idempotency_key, :payload_hash, :payload_blob, :timeout_s, :deadline_at, :max_retries, :max_reschedules, :payload, :now.
-- Reply: its number; nothing where a task has this id.
WITH added AS (
    INSERT INTO forebay_tasks (
        id, kind, lane, tenant, status, role, generation, priority, flow, idempotency_key, payload_hash, payload_blob,
        timeout_s, deadline_at, max_retries, max_reschedules, created_at, available_at, payload, claim_count, tag
    )
    SELECT :id::text, :kind::text, :lane::text, :tenant::text, 'pending', 'lone', 1, :priority::integer, :flow::text,
           :idempotency_key::text, :payload_hash::text, :payload_blob::text, :timeout_s::float8, :deadline_at::float8,
           :max_retries::bigint, :max_reschedules::bigint, :now, :now, :payload::text,
           coalesce((SELECT b.claim_count FROM forebay_buried AS b WHERE b.id = :id::text), 0),
           coalesce((
               SELECT r.tag FROM forebay_ready AS r
               WHERE r.flow IS NOT NULL AND r.kind = :kind::text AND r.lane = :lane::text
                 AND r.priority = :priority::integer AND r.flow = :flow::text
               ORDER BY r.tag DESC
               LIMIT 1
           ), (
               SELECT r.tag FROM forebay_ready AS r
               WHERE r.kind = :kind::text AND r.lane = :lane::text AND r.priority = :priority::integer
               ORDER BY r.tag
               LIMIT 1
           ), 0) + greatest(1, (
               WITH RECURSIVE found (flow, place) AS (
                   SELECT :flow::text COLLATE "C", 1::bigint WHERE :beyond::text IS NOT NULL
                   UNION ALL
                   SELECT (
                       SELECT r.flow FROM forebay_ready AS r
                       WHERE r.flow IS NOT NULL AND r.kind = :kind::text AND r.lane = :lane::text
                         AND r.priority = :priority::integer AND r.flow > f.flow AND r.flow < :beyond::text
                       ORDER BY r.flow
                       LIMIT 1
                   ), f.place + 1
                   FROM found AS f
                   WHERE f.flow IS NOT NULL AND f.place < :most::bigint
               )
               SELECT count(flow) FROM found
           ))
    ON CONFLICT (id) DO NOTHING
    RETURNING seq, kind, lane, priority, tag, available_at, flow, job_id, role
)
INSERT INTO forebay_ready
SELECT * FROM added
RETURNING seq
