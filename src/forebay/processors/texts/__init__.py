"""What a parser child does to the text of documents: cut it into articles, find its language and its keywords."""
