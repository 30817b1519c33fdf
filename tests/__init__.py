"""Tests of Forebay."""
