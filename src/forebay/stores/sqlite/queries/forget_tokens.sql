-- Forgets the tokens of tasks that were deleted long ago. :kept_s, :now. No reply.
DELETE FROM buried WHERE at < :now - :kept_s
