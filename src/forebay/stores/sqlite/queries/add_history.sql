-- Adds the attempts that `end` ends. :endings as there, :now.
INSERT INTO history
SELECT t.seq, t.claim_count, e.value ->> 6, t.session_id, e.value ->> 16, t.claimed_at, :now, e.value ->> 13,
       e.value ->> 1, e.value ->> 3, e.value ->> 4, e.value ->> 14,
       CASE WHEN e.value ->> 1 = 'pending' THEN e.value ->> 7 END, e.value ->> 10, e.value ->> 11, e.value ->> 17
FROM jsonb_each(:endings) AS e
CROSS JOIN tasks AS t ON t.seq = e.value ->> 0
WHERE e.value ->> 15
