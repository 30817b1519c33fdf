-- The schema of the ledger. Reply: number.
SELECT substring(obj_description(to_regclass('forebay_tasks'), 'pg_class') FROM '[0-9]+$')::bigint
