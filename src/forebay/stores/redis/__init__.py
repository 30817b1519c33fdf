"""Limits in Redis or Valkey: shared by every process that reaches the server."""
