-- Makes delayed tasks ready. :given rows [seq, tag]. No reply.
UPDATE tasks SET tag = given.value ->> 1, wait_reason = NULL
FROM jsonb_each(:given) AS given
WHERE tasks.seq = given.value ->> 0
