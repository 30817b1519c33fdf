"""What the benchmarks of whole engines share: the two applications, their processes, and a record of what ran."""
