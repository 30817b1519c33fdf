"""A demonstration that proves the promise: documents, workers, a simulated provider, a kill, and the provider's verdict."""
