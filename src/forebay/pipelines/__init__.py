"""Documents: what takes them in, splits them, has their chunks processed, and merges what was read."""
