-- Stores pauses. :rows [lane, at, until or null, note]. No reply.
INSERT INTO pauses
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(:rows) WHERE true
ON CONFLICT (lane) DO UPDATE SET at = excluded.at, until = excluded.until, note = excluded.note
