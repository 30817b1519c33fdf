-- Makes delayed tasks ready. :given JSON [[seq, tag], …].
UPDATE tasks SET tag = given.value ->> 1, wait_reason = NULL
FROM jsonb_each(:given) AS given
WHERE tasks.seq = given.value ->> 0
