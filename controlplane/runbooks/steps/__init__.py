"""One small module per step of a runbook."""
