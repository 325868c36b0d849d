"""People, roles, one-time links and API tokens."""
