-- The latest actions, newest first. :most. Reply: Audit's fields.
SELECT id, at, who, tenant, verb, targets, target_count, note FROM forebay_audit ORDER BY seq DESC LIMIT :most
