"""Where the time of runs went, read from everything that was recorded."""
