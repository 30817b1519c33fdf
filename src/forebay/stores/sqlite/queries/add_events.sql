-- Adds events. :rows [job_id, number, at, name, JSON text]. No reply.
INSERT INTO events
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM jsonb_each(:rows)
