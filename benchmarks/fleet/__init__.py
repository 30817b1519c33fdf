"""What the benchmarks of many workers on one server share: the contenders, their processes and their places."""
