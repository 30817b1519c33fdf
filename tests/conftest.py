"""Gives every test the real servers."""

pytest_plugins = ["tests.servers.fixtures"]
