"""Parsers, and programs under limits, as real processes."""
