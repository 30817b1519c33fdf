"""Pipelines: what becomes of a document, from its chunks' results to the files that a user reads."""
