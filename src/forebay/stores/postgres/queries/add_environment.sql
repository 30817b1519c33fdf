-- Gives the ledger to an environment, unless it has one. :environment. No reply.
INSERT INTO forebay_facts (name, value) VALUES ('environment', :environment) ON CONFLICT (name) DO NOTHING
