"""Tests of what is done to the bytes of documents."""
