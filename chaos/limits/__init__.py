"""A provider that counts calls, callers that share a limiter, and the judge of what the provider saw."""
