"""The checkpoint ledger."""
