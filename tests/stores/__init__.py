"""Every store against the suite of its contract."""
