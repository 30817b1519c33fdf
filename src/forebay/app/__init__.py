"""Puts it together: settings, stores, engine and the public face."""
