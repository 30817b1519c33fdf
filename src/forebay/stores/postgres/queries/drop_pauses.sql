-- Ends pauses. :lanes values. No reply.
DELETE FROM forebay_pauses WHERE lane = ANY (:lanes::text[])
