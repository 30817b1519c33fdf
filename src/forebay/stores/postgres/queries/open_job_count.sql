-- How many jobs of a tenant have not ended. :tenant. Reply: the count.
SELECT count(*) FROM forebay_jobs WHERE tenant = :tenant AND status IN ('pending', 'running')
