"""The ledger in an object store, by compare-and-swap: one object per unit. Not offered to users yet."""
