"""The other end of a worker: a process that runs blocking handlers, one task at a time."""
