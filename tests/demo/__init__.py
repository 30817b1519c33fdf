"""The simulator of the paid APIs, asked over HTTP by clients that know nothing of it."""
