-- Records an action. :id, :at, :who, :tenant, :verb, :targets JSON text, :target_count, :note, :answer JSON text.
-- No reply. One that another transaction has recorded meanwhile is an error, after which all is done again.
INSERT INTO forebay_audit (id, at, who, tenant, verb, targets, target_count, note, answer)
VALUES (:id, :at, :who, :tenant, :verb, :targets, :target_count, :note, :answer)
