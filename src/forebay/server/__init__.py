"""The HTTP face: jobs, tasks, limits and what happens to them, over the functions that the command line uses too."""
