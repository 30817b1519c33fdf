"""What is done to the bytes of documents, as verbs for a parser child: each takes arguments and open files."""
