"""Processors: what turns one chunk of a document into its pages."""
