"""Documents that are tagged, by a provider that the simulator plays."""
