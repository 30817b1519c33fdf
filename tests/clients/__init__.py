"""Forebay inside other people's HTTP clients."""
