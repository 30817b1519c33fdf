-- Adds usage. :rows rows [task_id, token, meter, unit, tenant, amount], :now. No reply.
INSERT INTO usage
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, :now FROM jsonb_each(:rows)
