"""Runs that kill, stop and starve Forebay's processes, and judges that share no code with it."""
