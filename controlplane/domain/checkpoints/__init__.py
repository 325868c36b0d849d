"""Which saved state a run may trust, and what a crash now would lose."""
