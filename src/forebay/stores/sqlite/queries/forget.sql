-- Forgets the results of a document. :tenant, :document. Reply: one row for each.
DELETE FROM remembered WHERE tenant = :tenant AND document = :document RETURNING key
