-- Adds events. :rows [job_id, number, at, name, JSON text]. No reply.
INSERT INTO forebay_events
SELECT * FROM unnest(:rows.0::text[], :rows.1::bigint[], :rows.2::float8[], :rows.3::text[], :rows.4::text[])
