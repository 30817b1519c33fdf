"""Real processes on one limit, forked from one importer, beside the same processes with a local semaphore each."""
