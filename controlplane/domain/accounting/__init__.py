"""Where the time of a run went, and what a fault cost."""
