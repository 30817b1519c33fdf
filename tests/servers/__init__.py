"""Real servers for the tests: each on its own loopback port, in its own folder, gone with the test run."""
