"""The HTTP face, asked as clients ask it."""
