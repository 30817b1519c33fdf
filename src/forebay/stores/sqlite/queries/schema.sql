-- The schema of the ledger. Reply: number.
SELECT user_version FROM pragma_user_version
