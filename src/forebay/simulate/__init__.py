"""A local server that speaks the paid APIs, enforces quotas, misbehaves on demand, and records what it saw.

It shares no code with the limiter and the engine that it judges: its own clock, its own counting.
"""
