"""What the benchmark of the pipeline is made of: quotas, a run, what was seen in it, and its judges."""
