"""Benchmarks beside other libraries, run in an environment that has them."""
