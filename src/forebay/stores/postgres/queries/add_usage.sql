-- Adds usage. :rows [task_id, token, meter, unit, tenant, amount], :now. No reply.
INSERT INTO forebay_usage
SELECT u.*, :now
FROM unnest(
    :rows.0::text[], :rows.1::bigint[], :rows.2::text[], :rows.3::text[], :rows.4::text[], :rows.5::float8[]
) AS u
