"""The ledger in one SQLite file, shared by the processes of one machine."""
