"""What the benchmark of limiters shares: ours and theirs as gates, loops that drive them, clocks outside of both."""
