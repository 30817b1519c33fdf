-- Stores payloads. :rows JSON [[task_seq, JSON text], …].
INSERT INTO payloads SELECT value ->> 0, value ->> 1 FROM jsonb_each(:rows)
