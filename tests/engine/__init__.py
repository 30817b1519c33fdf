"""The engine on a real ledger, with real children."""
