"""One module for each engine: how it is set up, filled, submitted to, run, and looked into from outside."""
