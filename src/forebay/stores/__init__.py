"""Where tasks and limit state live: an address chooses the store."""
