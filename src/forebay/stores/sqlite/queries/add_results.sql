-- Stores results. :rows JSON [[task_seq, JSON text], …].
INSERT INTO results
SELECT value ->> 0, value ->> 1 FROM jsonb_each(:rows) WHERE true
ON CONFLICT (task_seq) DO UPDATE SET result = excluded.result
