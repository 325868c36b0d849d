"""The demonstration: a real training run on seven local agents, hurt on purpose.

It uses the product as a stranger would: agents are enrolled with a token, the run
is created by REST, and what happened is read from the incidents afterwards.
"""
