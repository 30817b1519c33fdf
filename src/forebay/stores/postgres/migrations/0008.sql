-- Lists that ask for several things at once. The pairs of a kind and a role are few, so that each index serves every list
-- that names more than its first columns by a seek for each pair. None of these columns is changed by an ordinary end:
-- `dead` is the status of tasks that have failed or were canceled, and of no others.
-- Each index writes the number in a way of its own: only that index has the order that its lists ask for, so that no plan,
-- whatever was known of the tables when it was made, reads another index to its end instead. `role || ''`: nobody else is
-- tempted to use these indexes for a role alone.
ALTER TABLE forebay_tasks ADD COLUMN dead text COLLATE "C"
    GENERATED ALWAYS AS (CASE WHEN status IN ('failed', 'canceled') THEN status END) STORED;

DROP INDEX forebay_tasks_kind, forebay_tasks_tenant, forebay_tasks_failed, forebay_tasks_canceled;
CREATE INDEX forebay_tasks_kind ON forebay_tasks (kind, (role || ''), (seq + 0));
CREATE INDEX forebay_tasks_tenant ON forebay_tasks (tenant, kind, (role || ''), (seq - 0));
CREATE INDEX forebay_tasks_dead ON forebay_tasks (dead, kind, (role || ''), (seq * 1)) WHERE dead IS NOT NULL;
CREATE INDEX forebay_tasks_dead_tenant ON forebay_tasks (dead, tenant, kind, (role || ''), (seq / 1)) WHERE dead IS NOT NULL;
