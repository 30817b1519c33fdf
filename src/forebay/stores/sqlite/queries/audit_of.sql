-- The latest actions that were done to a task, a job or whatever has this id, newest first. :target, :most.
-- Reply: as `audit`.
-- By the answer: `targets` has only the first of many.
SELECT id, at, who, tenant, verb, targets, target_count, note FROM audit
WHERE instr(answer, '["' || :target || '","done"') > 0
ORDER BY seq DESC LIMIT :most
