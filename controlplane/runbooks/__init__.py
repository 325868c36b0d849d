"""Runbook executions: durable work that any worker may carry on."""
