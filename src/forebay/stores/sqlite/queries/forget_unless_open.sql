-- Forgets the results of a document that no open job works on. :tenant, :document. No reply.
DELETE FROM remembered
WHERE tenant = :tenant AND document = :document AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE document = :document AND tenant = :tenant AND status IN ('pending', 'running')
)
