"""The node ledger."""
