-- Adds attempts. :rows JSON [[task_seq, token, attempt, session_id, worker, claimed_at, ended_at, outcome, status,
-- retry_count, reschedule_count, settled, available_at, error_class, error_text, traceback], …].
INSERT INTO history
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15
FROM jsonb_each(:rows)
