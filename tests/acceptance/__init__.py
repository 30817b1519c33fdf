"""What was asked for, shown end to end: real workers, a provider that counts by its own clock, an independent judge."""
