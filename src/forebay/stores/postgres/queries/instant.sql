-- The time. :clock. Reply: it.
SELECT :clock
