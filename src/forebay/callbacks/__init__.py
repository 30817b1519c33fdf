"""Signed notices of what became of a job, to the URLs that its users gave."""
