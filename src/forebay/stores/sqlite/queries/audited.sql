-- An action that was done before. :id. Reply: Audit's fields, answer as JSON text.
SELECT id, at, who, tenant, verb, targets, target_count, note, answer FROM audit WHERE id = :id
