"""Faults of processes, disks and files, and what the SQLite ledger makes of them."""
