-- Forgets the results of a document that no open job works on. :tenant, :document. No reply.
DELETE FROM forebay_remembered
WHERE tenant = :tenant AND document = :document AND NOT EXISTS (
    SELECT 1 FROM forebay_jobs WHERE document = :document AND tenant = :tenant AND status IN ('pending', 'running')
)
