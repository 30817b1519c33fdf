-- Forgets the results of a document. :tenant, :document. Reply: one row for each.
DELETE FROM forebay_remembered WHERE tenant = :tenant AND document = :document RETURNING key
