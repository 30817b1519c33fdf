-- Up to two ids in a range. :first, :last_one. Reply: id.
SELECT id FROM forebay_tasks WHERE id BETWEEN :first AND :last_one
UNION
SELECT id FROM forebay_jobs WHERE id BETWEEN :first AND :last_one
ORDER BY id
LIMIT 2
