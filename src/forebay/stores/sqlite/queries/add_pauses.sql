-- Stores pauses. :rows JSON [[lane, at, until or null, note], …].
INSERT INTO pauses SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(:rows)
