-- The environment that the ledger belongs to. Reply: name, if it has one.
SELECT value FROM forebay_facts WHERE name = 'environment'
