"""Properties that random steps must not break."""
