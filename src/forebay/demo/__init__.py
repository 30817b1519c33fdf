"""A demonstration of the promises: documents, workers, a kill, and the verdict of a simulated provider."""
