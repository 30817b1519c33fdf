"""Tests of the test harness itself."""
