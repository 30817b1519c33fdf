"""A limit store alone: sessions without processes, driven from two, through the verbs of the store's contract."""
