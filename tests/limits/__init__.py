"""The limiter on stores in this process, and what it does when they fail."""
