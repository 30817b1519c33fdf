-- Deletes units with all that belongs to them; the last tokens of their tasks stay. :ids values, :now. No reply.
WITH gone AS (
    DELETE FROM forebay_tasks
    WHERE id = ANY (:ids::text[]) OR job_id = ANY (:ids::text[])
    RETURNING seq, id, claim_count, tags
), left_line AS (
    DELETE FROM forebay_ready WHERE seq = ANY (ARRAY(SELECT seq FROM gone))
), past AS (
    DELETE FROM forebay_history WHERE task_seq = ANY (ARRAY(SELECT seq FROM gone))
), told AS (
    DELETE FROM forebay_events WHERE job_id = ANY (:ids::text[])
), jobs AS (
    DELETE FROM forebay_jobs WHERE id = ANY (:ids::text[])
    RETURNING seq, tags
), untagged_tasks AS (
    DELETE FROM forebay_task_tags AS g
    USING gone AS o
    CROSS JOIN LATERAL jsonb_array_elements_text(o.tags::jsonb) AS own (tag)
    WHERE g.tag = own.tag AND g.seq = o.seq
), untagged_jobs AS (
    DELETE FROM forebay_job_tags AS g
    USING jobs AS o
    CROSS JOIN LATERAL jsonb_array_elements_text(o.tags::jsonb) AS own (tag)
    WHERE g.tag = own.tag AND g.seq = o.seq
)
INSERT INTO forebay_buried
SELECT id, claim_count, :now FROM gone WHERE claim_count > 0
ON CONFLICT (id) DO UPDATE SET claim_count = excluded.claim_count, at = excluded.at
