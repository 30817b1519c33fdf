"""The limiter inside task queues that other people wrote, with their own workers, on a real Valkey."""
