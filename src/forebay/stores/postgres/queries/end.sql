-- Ends attempts, with their history and results. :endings rows [seq, status, wait_reason, retry_count,
-- reschedule_count, lost_count, attempt_count, available_at, keeps place (0 or 1), finished_at, error_class,
-- error_text, result_blob, outcome, settled (0 or 1), counted (0 or 1), worker, traceback],
-- :results rows [seq, JSON text or null], none or one for each, :now, :clock. No reply.
-- By their places (ctid), which OFFSET 0 lets nobody find but by the key: a join might be planned to read all of them.
WITH ended AS (
    UPDATE forebay_tasks AS t
    SET status = e.status,
        wait_reason = e.wait_reason,
        retry_count = e.retry_count,
        reschedule_count = e.reschedule_count,
        lost_count = e.lost_count,
        attempt_count = e.attempt_count,
        claim_count = own.token,
        session_id = own.session_id,
        exchange_n = own.exchange_n,
        claimed_at = own.claimed_at,
        attempt_deadline_at = own.attempt_deadline_at,
        available_at = e.available_at,
        later_at = CASE WHEN e.status = 'pending' AND NOT (e.keeps_place AND t.tag IS NOT NULL) THEN e.available_at END,
        tag = CASE WHEN e.keeps_place THEN t.tag END,
        finished_at = e.finished_at,
        error_class = e.error_class,
        error_text = e.error_text,
        result_blob = e.result_blob,
        result = e.result
    FROM unnest(
        :endings.0::bigint[], :endings.1::text[], :endings.2::text[], :endings.3::bigint[], :endings.4::bigint[],
        :endings.5::bigint[], :endings.6::bigint[], :endings.7::float8[], :endings.8::boolean[],
        :endings.9::float8[], :endings.10::text[], :endings.11::text[], :endings.12::text[], :endings.13::text[],
        :endings.14::boolean[], :endings.15::boolean[], :endings.16::text[], :endings.17::text[], :results.1::text[]
    ) AS e (
        seq, status, wait_reason, retry_count, reschedule_count, lost_count, attempt_count, available_at,
        keeps_place, finished_at, error_class, error_text, result_blob, outcome, settled, counted, worker,
        traceback, result
    )
    CROSS JOIN LATERAL (
        SELECT r.token, r.session_id, r.exchange_n, r.claimed_at, r.attempt_deadline_at
        FROM forebay_running AS r
        WHERE r.seq = e.seq
        OFFSET 0
    ) AS own
    CROSS JOIN LATERAL (SELECT t.ctid FROM forebay_tasks AS t WHERE t.seq = e.seq OFFSET 0) AS place
    WHERE t.ctid = place.ctid
    RETURNING t.seq, t.kind, t.lane, t.priority, t.flow, t.tag, t.job_id, t.role, t.claim_count, t.session_id,
              t.claimed_at, e.attempt_count, e.worker, e.outcome, e.status,
              e.retry_count, e.reschedule_count, e.settled, e.counted, e.available_at, e.error_class, e.error_text,
              e.traceback
), let_go AS (
    DELETE FROM forebay_running WHERE seq = ANY (ARRAY(SELECT seq FROM ended))
), back AS (
    INSERT INTO forebay_ready
    SELECT seq, kind, lane, priority, tag, available_at, flow, job_id, role
    FROM ended
    WHERE status = 'pending' AND tag IS NOT NULL
)
INSERT INTO forebay_history
SELECT seq, claim_count, attempt_count, session_id, worker, claimed_at, :clock, outcome, status, retry_count,
       reschedule_count, settled, CASE WHEN status = 'pending' THEN available_at END, error_class, error_text,
       traceback
FROM ended
WHERE counted
