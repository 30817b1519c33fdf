-- Records an action. :id, :at, :who, :tenant, :verb, :targets JSON text, :target_count, :note, :answer JSON text.
-- No reply.
INSERT INTO audit (id, at, who, tenant, verb, targets, target_count, note, answer)
VALUES (:id, :at, :who, :tenant, :verb, :targets, :target_count, :note, :answer)
ON CONFLICT (id) DO NOTHING
