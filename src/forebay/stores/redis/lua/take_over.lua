-- Takes over what an older program has left of a limit, after whole.
--
-- KEYS     the limit's parts, as header.lua has them
--
-- Reply: 1.
whole.take_over()
return 1
