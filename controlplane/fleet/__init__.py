"""Nodes, the tokens that their agents hold, and the commands that wait for them."""
