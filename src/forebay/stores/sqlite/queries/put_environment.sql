-- Gives the ledger to an environment. :environment. No reply.
INSERT INTO facts (name, value) VALUES ('environment', :environment)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
