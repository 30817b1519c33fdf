-- Adds a lone task that is due at once; its tag is the one that rules.fairness.tags gives it: behind the last of its flow,
-- or behind the head of the line where none of its flow stands. :id, :kind, :lane, :tenant, :priority, :flow, :beyond all
-- flows of its tenant, of which :flow is the first, or NULL where it shares its turn with none, :most flows to count,
-- :idempotency_key, :payload_hash, :payload_blob, :timeout_s, :deadline_at, :max_retries, :max_reschedules, :payload, :now.
-- Reply: its number; nothing where a task has this id.
INSERT INTO tasks (
    id, kind, lane, tenant, status, role, generation, priority, flow, idempotency_key, payload_hash, payload_blob,
    timeout_s, deadline_at, max_retries, max_reschedules, created_at, available_at, claim_count, tag
)
VALUES (
    :id, :kind, :lane, :tenant, 'pending', 'lone', 1, :priority, :flow, :idempotency_key, :payload_hash, :payload_blob,
    :timeout_s, :deadline_at, :max_retries, :max_reschedules, :now, :now,
    coalesce((SELECT claim_count FROM buried WHERE id = :id), 0),
    coalesce((
        SELECT tag FROM tasks
        WHERE status = 'pending' AND tag IS NOT NULL AND flow IS NOT NULL
          AND kind = :kind AND lane = :lane AND priority = :priority AND flow = :flow
        ORDER BY tag DESC
        LIMIT 1
    ), (
        SELECT tag FROM tasks
        WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane AND priority = :priority
        ORDER BY tag
        LIMIT 1
    ), 0) + max(1, (
        WITH RECURSIVE found (flow, place) AS (
            SELECT :flow, 1 WHERE :beyond IS NOT NULL
            UNION ALL
            SELECT (
                SELECT min(flow) FROM tasks
                WHERE status = 'pending' AND tag IS NOT NULL AND flow IS NOT NULL
                  AND kind = :kind AND lane = :lane AND priority = :priority AND flow > found.flow AND flow < :beyond
            ), found.place + 1
            FROM found
            WHERE found.flow IS NOT NULL AND found.place < :most
        )
        SELECT count(flow) FROM found
    ))
)
ON CONFLICT (id) DO NOTHING;

INSERT INTO payloads
SELECT last_insert_rowid(), :payload WHERE changes() = 1
RETURNING task_seq
