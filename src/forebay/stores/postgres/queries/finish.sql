-- Ends attempts of lone tasks for good, of those that are still held under their token. :endings rows [seq, token,
-- status, retry_count, reschedule_count, lost_count, error_class, error_text, result_blob, outcome, traceback,
-- result as JSON text], :session_id whose worker it was, :now, :clock. Reply: task id, token, tenant.
-- One that somebody else has just locked may be missing: `held` waits for it.
WITH ended AS (
    UPDATE forebay_tasks AS t
    SET status = e.status,
        wait_reason = NULL,
        retry_count = e.retry_count,
        reschedule_count = e.reschedule_count,
        lost_count = e.lost_count,
        attempt_count = t.attempt_count + 1,
        claim_count = e.token,
        session_id = own.session_id,
        exchange_n = own.exchange_n,
        claimed_at = own.claimed_at,
        attempt_deadline_at = own.attempt_deadline_at,
        tag = NULL,
        finished_at = k.ended_at,
        error_class = e.error_class,
        error_text = e.error_text,
        result_blob = e.result_blob,
        result = e.result
    FROM unnest(
        :endings.0::bigint[], :endings.1::bigint[], :endings.2::text[], :endings.3::bigint[], :endings.4::bigint[],
        :endings.5::bigint[], :endings.6::text[], :endings.7::text[], :endings.8::text[], :endings.9::text[],
        :endings.10::text[], :endings.11::text[]
    ) AS e (
        seq, token, status, retry_count, reschedule_count, lost_count, error_class, error_text, result_blob, outcome,
        traceback, result
    )
    CROSS JOIN (SELECT :clock AS ended_at OFFSET 0) AS k
    CROSS JOIN LATERAL (SELECT t.ctid FROM forebay_tasks AS t WHERE t.seq = e.seq OFFSET 0) AS place
    CROSS JOIN LATERAL (
        SELECT r.session_id, r.exchange_n, r.claimed_at, r.attempt_deadline_at
        FROM forebay_running AS r
        WHERE r.seq = e.seq AND r.token = e.token
        OFFSET 0
    ) AS own
    WHERE t.ctid = place.ctid AND t.claim_count = e.token - 1 AND t.status = 'pending'
    RETURNING t.seq, t.id, t.tenant, t.claim_count, t.attempt_count, t.session_id, t.claimed_at, t.finished_at,
              e.outcome, t.status, t.retry_count, t.reschedule_count, t.error_class, t.error_text, e.traceback
), let_go AS (
    DELETE FROM forebay_running WHERE seq = ANY (ARRAY(SELECT seq FROM ended))
), told AS (
    INSERT INTO forebay_history
    SELECT seq, claim_count, attempt_count, session_id,
           coalesce((SELECT worker FROM forebay_sessions WHERE id = :session_id), ''), claimed_at, finished_at,
           outcome, status, retry_count, reschedule_count, true, NULL, error_class, error_text, traceback
    FROM ended
)
SELECT id, claim_count, tenant FROM ended
