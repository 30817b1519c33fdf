"""The demonstration, and how it judges."""
