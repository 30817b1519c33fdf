"""Measurements, run by `./dev bench NAME`; none of them asserts anything."""
