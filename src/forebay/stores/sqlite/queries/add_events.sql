-- Adds events. :rows JSON [[job_id, number, at, name, JSON text], …].
INSERT INTO events
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM jsonb_each(:rows)
