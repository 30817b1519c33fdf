"""Limits in Redis or Valkey: shared by every process that reaches the server."""

from __future__ import annotations

from forebay.errors import MissingExtra

try:
    import redis  # noqa: F401 - only whether it is there
except ImportError:
    raise MissingExtra("Limits in Redis need the package redis.", remedy="Run: pip install 'forebay[redis]'") from None
