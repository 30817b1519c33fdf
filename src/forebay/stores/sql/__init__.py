"""The steps of a ledger in SQL, written once: SQLite and PostgreSQL each bring their own statements and a driver."""
