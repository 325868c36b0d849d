"""Which runbook answers a diagnosis, what holds it back, and how it goes on."""
