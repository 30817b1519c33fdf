"""The nouns: frozen records that stores take in and give out."""
