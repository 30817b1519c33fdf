-- Events of many jobs. :asked rows [place, job id, number before the first, number of the last].
-- Reply: place, number, at, name, fields as JSON text; those of a place in order.
SELECT asked.place, e.number, e.at, e.name, e.fields
FROM unnest(:asked.0::bigint[], :asked.1::text[], :asked.2::bigint[], :asked.3::bigint[])
    AS asked (place, job_id, before, last)
CROSS JOIN LATERAL (
    SELECT number, at, name, fields FROM forebay_events
    WHERE job_id = asked.job_id AND number > asked.before AND number <= asked.last
    ORDER BY number
) AS e
