"""The event log: every event that agents sent, in the order of commits."""
