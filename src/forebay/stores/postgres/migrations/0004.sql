-- Lists find their rows by an index, whatever they filter on. None of these indexes holds a column that an ordinary
-- end of a task changes: PostgreSQL would have to write every index of the task again.
CREATE INDEX forebay_tasks_of_job ON forebay_tasks (job_id, seq) WHERE job_id IS NOT NULL;
DROP INDEX forebay_tasks_job;
-- `seq + 0`: only these indexes have the order that their lists ask for, so no plan reads all tasks instead.
CREATE INDEX forebay_tasks_kind ON forebay_tasks (kind, (seq + 0));
CREATE INDEX forebay_tasks_tenant ON forebay_tasks (tenant, (seq + 0));
-- What was canceled says so; a merge that a retry set aside did not.
UPDATE forebay_tasks SET error_class = 'canceled', error_text = coalesce(error_text, 'Canceled')
WHERE status = 'canceled' AND error_class IS DISTINCT FROM 'canceled';
CREATE INDEX forebay_tasks_failed ON forebay_tasks (seq) WHERE error_class <> 'canceled';
CREATE INDEX forebay_tasks_canceled ON forebay_tasks (seq) WHERE error_class = 'canceled';
CREATE INDEX forebay_tasks_delayed ON forebay_tasks (seq) WHERE later_at IS NOT NULL;
CREATE INDEX forebay_jobs_status ON forebay_jobs (status, (seq + 0));
CREATE INDEX forebay_jobs_pipeline ON forebay_jobs (pipeline, (seq + 0));
CREATE INDEX forebay_jobs_tenant ON forebay_jobs (tenant, (seq + 0));

-- The tags of tasks and of jobs, in the order of the lists.
CREATE TABLE forebay_task_tags (
    tag text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (tag, seq)
);
CREATE TABLE forebay_job_tags (
    tag text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (tag, seq)
);
INSERT INTO forebay_task_tags
SELECT DISTINCT g.tag, t.seq FROM forebay_tasks AS t CROSS JOIN LATERAL jsonb_array_elements_text(t.tags::jsonb) AS g (tag)
WHERE t.tags IS NOT NULL;
INSERT INTO forebay_job_tags
SELECT DISTINCT g.tag, j.seq FROM forebay_jobs AS j CROSS JOIN LATERAL jsonb_array_elements_text(j.tags::jsonb) AS g (tag)
WHERE j.tags IS NOT NULL;
