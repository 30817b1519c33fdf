"""The ledger of one process: nothing is kept when it ends."""
