-- Stores pauses. :rows [lane, at, until or null, note]. No reply.
INSERT INTO forebay_pauses
SELECT * FROM unnest(:rows.0::text[], :rows.1::float8[], :rows.2::float8[], :rows.3::text[])
ON CONFLICT (lane) DO UPDATE SET at = excluded.at, until = excluded.until, note = excluded.note
