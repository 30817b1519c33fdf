"""Documents wait durably and go through rate-limited, paid APIs exactly as fast as the quota allows."""
