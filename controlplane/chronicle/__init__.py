"""The append-only account of what happened."""
