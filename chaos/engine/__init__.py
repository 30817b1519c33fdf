"""Real workers on one SQLite file, killed, stopped and cut off at every step of a task's path."""
