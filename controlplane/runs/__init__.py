"""Runs, their attempts, and the leases and rows of their reducers."""
