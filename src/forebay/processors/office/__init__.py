"""What a parser child does to documents that are no pages: make Markdown of them."""
