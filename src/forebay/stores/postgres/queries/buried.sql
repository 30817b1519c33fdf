-- The last tokens of deleted tasks. :ids values. Reply: id, claim_count.
SELECT id, claim_count FROM forebay_buried WHERE EXISTS (SELECT 1 FROM forebay_buried) AND id = ANY (:ids::text[])
