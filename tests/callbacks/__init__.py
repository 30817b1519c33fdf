"""Callbacks: what is signed, where it may go, and that it arrives."""
