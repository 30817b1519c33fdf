-- Forgets the tokens of tasks that were deleted long ago. :kept_s, :now. No reply.
DELETE FROM forebay_buried
WHERE id IN (
    SELECT id FROM forebay_buried WHERE at < :now - :kept_s::float8 LIMIT 10000 FOR UPDATE SKIP LOCKED
)
